// SPDX-License-Identifier: Apache-2.0
// When may a loop begin? Once its caches hold their first lists, or never, when the process is told to end before.
import type { KubeObject } from "@patchbay/api";
import type { Cache } from "@patchbay/core/ports";

/** Resolves when all caches hold their first lists, or when the signal is aborted, whichever is first. */
export async function waitForCaches(
  caches: readonly Pick<Cache<KubeObject>, "synced">[],
  signal: AbortSignal,
): Promise<void> {
  const { promise: aborted, resolve } = Promise.withResolvers<undefined>();
  const end = (): void => {
    resolve(undefined);
  };
  if (signal.aborted) end();
  signal.addEventListener("abort", end, { once: true });
  await Promise.race([Promise.all(caches.map((cache) => cache.synced())), aborted]);
  signal.removeEventListener("abort", end);
}
