// SPDX-License-Identifier: Apache-2.0
// Polls for conditions that a test cannot watch.

/** Interval of polls, milliseconds: a tenth of the elapsed time within these limits. */
const REST_MS = { least: 20, most: 200, share: 0.1 };

/**
 * Factor for a busy machine: tests state times of an idle one, and all suites run in parallel. A guest's shutdown of 2
 * s took over 10 (at a load of 12 on two cores).
 */
export const BUSY = 6;

/**
 * Calls `look` until it returns a value other than undefined or false; after the timeout it throws the last failure.
 */
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
      // The compiler cannot narrow this generic type.
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
