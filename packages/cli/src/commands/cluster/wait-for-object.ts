// SPDX-License-Identifier: Apache-2.0
// Waits until an object in the cluster meets a condition.
import type { ResourceType } from "@patchbay/api";
import type { KubeObject } from "@patchbay/api/kubernetes";
import type { ObjectKey } from "@patchbay/core/interfaces";
import type { Context } from "../../command.ts";
import type { Session } from "../../session.ts";

export interface ObjectCondition<T extends KubeObject> {
  readonly type: ResourceType<T>;
  readonly key: ObjectKey;
  /** Returns whether the condition is met. `object` is undefined if the object does not exist. */
  readonly isReached: (object: T | undefined) => boolean;
}

/** Waits until the object meets the condition. Rejects when the user presses Ctrl-C. */
export async function waitForObject<T extends KubeObject>(
  { client }: Session,
  { signal, err }: Context,
  { type, key, isReached }: ObjectCondition<T>,
): Promise<void> {
  const { createCache, waitForCaches } = await import("@patchbay/kube");
  const { createWarningLogger } = await import("../../session.ts");
  const finished = new AbortController();
  const ended = AbortSignal.any([signal, finished.signal]);
  const selection = { fieldSelector: `metadata.name=${key.name}` };
  const cache = createCache(client.reflect(type, selection), { logger: createWarningLogger(err) });
  const { promise, resolve } = Promise.withResolvers<undefined>();
  const check = (): void => {
    if (signal.aborted || isReached(cache.find(key))) resolve(undefined);
  };
  signal.addEventListener("abort", check, { once: true });
  cache.start(ended);
  await waitForCaches([cache], ended);
  cache.onChange(check);
  check();
  await promise;
  signal.removeEventListener("abort", check);
  finished.abort();
  signal.throwIfAborted();
}
