// SPDX-License-Identifier: Apache-2.0
// What becomes of a write that somebody else was faster than? It is planned anew, on fresh facts.

/** Writers that were faster so many times in a row are a fault of their own. */
const ATTEMPTS_MAX = 10;

/** Tries again until the race is won; undefined where it never is. An attempt is told how many there were before. */
export async function insist<T>(
  attempt: (count: number) => Promise<T | "again">,
): Promise<T | undefined> {
  for (let count = 0; count < ATTEMPTS_MAX; count += 1) {
    const result = await attempt(count);
    if (result !== "again") return result;
  }
  return undefined;
}
