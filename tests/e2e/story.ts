// SPDX-License-Identifier: Apache-2.0
// A story that is told beside others, and judged by tests later.

/** What a story saw; throws what made it end early. */
export type Seen<T> = () => T;

/** Waits until a story has been told. */
export async function told<T>(story: Promise<T>): Promise<Seen<T>> {
  const [result] = await Promise.allSettled([story]);
  return () => {
    if (result.status === "rejected") throw result.reason;
    return result.value;
  };
}
