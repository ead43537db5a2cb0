// SPDX-License-Identifier: Apache-2.0
// Offers devices to the node's kubelet as the configuration demands.
import type { KubeVirt } from "@patchbay/api";
import { planNodeOffers, type NodeOffer } from "@patchbay/core";
import type { Cache } from "@patchbay/core/ports";

export interface DeviceParts {
  readonly kubevirts: Cache<KubeVirt>;
  /** Offers one resource until aborted; resolves when the offer is withdrawn completely. */
  offer(one: NodeOffer, signal: AbortSignal): Promise<void>;
}

interface Offered {
  readonly stop: AbortController;
  readonly over: Promise<void>;
}

/** Offers what the configuration demands until aborted; resolves when all offers are withdrawn. */
export async function offerNodeDevices(parts: DeviceParts, signal: AbortSignal): Promise<void> {
  const { kubevirts } = parts;
  const offered = new Map<string, Offered>();
  const ending = new Map<string, Promise<void>>();
  const stopOffer = (resource: string, { stop, over }: Offered): void => {
    offered.delete(resource);
    ending.set(resource, over);
    stop.abort(new Error("it is no longer wanted"));
  };
  const bring = (): void => {
    const wanted = signal.aborted ? [] : planNodeOffers(kubevirts.list()[0]);
    for (const [resource, one] of [...offered]) {
      if (!wanted.some((device) => device.resource === resource)) stopOffer(resource, one);
    }
    for (const device of wanted.filter(({ resource }) => !offered.has(resource))) {
      const stop = new AbortController();
      // Two offers of one resource would listen on the same socket.
      const before = ending.get(device.resource) ?? Promise.resolve();
      const over = before.then(() => parts.offer(device, stop.signal));
      offered.set(device.resource, { stop, over });
    }
  };
  const forget = kubevirts.onChange(bring);
  bring();
  const { promise: aborted, resolve } = Promise.withResolvers<undefined>();
  signal.addEventListener("abort", () => {
    resolve(undefined);
  });
  if (!signal.aborted) await aborted;
  forget();
  bring();
  await Promise.all(ending.values());
}
