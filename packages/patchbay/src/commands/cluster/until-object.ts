// SPDX-License-Identifier: Apache-2.0
// Waits for a state of an object in the cluster.
import type { KubeObject, ResourceType } from "@patchbay/api";
import type { ObjectKey } from "@patchbay/core/ports";
import type { Context } from "../../command.ts";
import type { Session } from "../../session.ts";

export interface Awaited<T extends KubeObject> {
  readonly type: ResourceType<T>;
  readonly key: ObjectKey;
  /** Called with undefined if the object does not exist. */
  readonly isThere: (object: T | undefined) => boolean;
}

/** Resolves when the object is in the wanted state; rejects at Ctrl-C. */
export async function untilObject<T extends KubeObject>(
  { client }: Session,
  { signal, err }: Context,
  { type, key, isThere }: Awaited<T>,
): Promise<void> {
  const { createCache, waitForCaches } = await import("@patchbay/kube");
  const { warnTo } = await import("../../session.ts");
  const over = new AbortController();
  const either = AbortSignal.any([signal, over.signal]);
  const selection = { fieldSelector: `metadata.name=${key.name}` };
  const cache = createCache(client.reflect(type, selection), { logger: warnTo(err) });
  const { promise, resolve } = Promise.withResolvers<undefined>();
  const look = (): void => {
    if (signal.aborted || isThere(cache.find(key))) resolve(undefined);
  };
  signal.addEventListener("abort", look, { once: true });
  cache.start(either);
  await waitForCaches([cache], either);
  cache.onChange(look);
  look();
  await promise;
  signal.removeEventListener("abort", look);
  over.abort();
  signal.throwIfAborted();
}
