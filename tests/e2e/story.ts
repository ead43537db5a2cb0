// SPDX-License-Identifier: Apache-2.0
// A scenario that runs in parallel and is judged by later tests.

/** A scenario's observations; throws what ended it early. */
export type Seen<T> = () => T;

export async function told<T>(story: Promise<T>): Promise<Seen<T>> {
  const [result] = await Promise.allSettled([story]);
  return () => {
    if (result.status === "rejected") throw result.reason;
    return result.value;
  };
}
