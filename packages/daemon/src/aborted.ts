// SPDX-License-Identifier: Apache-2.0
// How does a service wait for its own end?

/** Resolves when the signal is aborted, at once if it is. */
export function aborted(signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<undefined>();
  const end = (): void => {
    resolve(undefined);
  };
  if (signal.aborted) end();
  signal.addEventListener("abort", end, { once: true });
  return promise;
}
