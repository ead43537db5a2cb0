// SPDX-License-Identifier: Apache-2.0
// Does something become so in time? For what cannot be watched from a test.

/** How often it is looked, milliseconds. */
const LOOK_MS = 20;

/** Calls `look` until it gives a value other than undefined or false; shows the last failure when it is too late. */
export async function eventually<T>(
  look: () => T | Promise<T>,
  { withinMs }: { readonly withinMs: number },
): Promise<Exclude<T, undefined | false>> {
  const deadline = performance.now() + withinMs;
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
    if (performance.now() > deadline) {
      throw new Error(`not so within ${String(withinMs)} ms: ${String(last)}`, { cause: last });
    }
    await new Promise((resolve) => {
      setTimeout(resolve, LOOK_MS);
    });
  }
}
