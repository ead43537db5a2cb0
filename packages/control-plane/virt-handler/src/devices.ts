// SPDX-License-Identifier: Apache-2.0
// Offers devices to the node's kubelet according to the configuration.
import type { KubeVirt } from "@patchbay/api";
import { planNodeOffers, type NodeOffer } from "@patchbay/core/node";
import type { Cache } from "@patchbay/core/interfaces";

export interface OfferOptions {
  readonly kubevirts: Cache<KubeVirt>;
  /** Offers a device. Resolves when the signal is aborted and the offer is withdrawn completely. */
  offer(one: NodeOffer, signal: AbortSignal): Promise<void>;
}

interface Offer {
  readonly stop: AbortController;
  readonly ended: Promise<void>;
}

/** Offers the configured devices. Resolves when the signal is aborted and all offers are withdrawn. */
export async function offerNodeDevices(parts: OfferOptions, signal: AbortSignal): Promise<void> {
  const { kubevirts } = parts;
  const offered = new Map<string, Offer>();
  const ending = new Map<string, Promise<void>>();
  const stopOffer = (resource: string, { stop, ended }: Offer): void => {
    offered.delete(resource);
    ending.set(resource, ended);
    stop.abort(new Error("it is no longer wanted"));
  };
  const update = (): void => {
    const wanted = signal.aborted ? [] : planNodeOffers(kubevirts.list()[0]);
    for (const [resource, one] of [...offered]) {
      if (!wanted.some((device) => device.resource === resource)) stopOffer(resource, one);
    }
    for (const device of wanted.filter(({ resource }) => !offered.has(resource))) {
      const stop = new AbortController();
      // Two offers of one resource would listen on the same socket.
      const before = ending.get(device.resource) ?? Promise.resolve();
      const ended = before.then(() => parts.offer(device, stop.signal));
      offered.set(device.resource, { stop, ended });
    }
  };
  const forget = kubevirts.onChange(update);
  update();
  const { promise: aborted, resolve } = Promise.withResolvers<undefined>();
  signal.addEventListener("abort", () => {
    resolve(undefined);
  });
  if (!signal.aborted) await aborted;
  forget();
  update();
  await Promise.all(ending.values());
}
