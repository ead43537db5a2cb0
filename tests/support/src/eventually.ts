// SPDX-License-Identifier: Apache-2.0
// Does something become so in time? For what cannot be watched from a test.

/** Between two looks, milliseconds: a tenth of the time so far, from the least to the most. */
const REST_MS = { least: 20, most: 200, share: 0.1 };

/**
 * What a busy machine gets of the time that a test allows: tests say what an idle machine takes at most, and all suites
 * run beside one another, where a guest's shutdown of 2 s was seen to take over 10 (at a load of 12 on two cores).
 */
export const BUSY = 6;

/** Calls `look` until it gives a value other than undefined or false; shows the last failure when it is too late. */
export async function eventually<T>(
  look: () => T | Promise<T>,
  options: { readonly withinMs: number },
): Promise<Exclude<T, undefined | false>> {
  const withinMs = options.withinMs * BUSY;
  const started = performance.now();
  for (;;) {
    let last: unknown;
    try {
      const value = await look();
      // What is neither undefined nor false is the rest of T; the compiler does not follow a generic type here.
      if (value !== undefined && value !== false) return value as Exclude<T, undefined | false>;
      last = value;
    } catch (error) {
      last = error;
    }
    const waited = performance.now() - started;
    if (waited > withinMs) {
      throw new Error(`not so within ${String(withinMs)} ms: ${String(last)}`, { cause: last });
    }
    const rest = Math.min(REST_MS.most, Math.max(REST_MS.least, waited * REST_MS.share));
    await new Promise((resolve) => {
      setTimeout(resolve, rest);
    });
  }
}
