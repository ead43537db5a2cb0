// SPDX-License-Identifier: Apache-2.0
import type { KubeVirt } from "@patchbay/api";
import { planNodeOffers, type NodeOffer } from "@patchbay/core/node";
import type { Cache } from "@patchbay/core/interfaces";

export interface OfferOptions {
  readonly kubevirts: Cache<KubeVirt>;
  /** Offers a device until the signal is aborted. Resolves after the offer is withdrawn. */
  offer(nodeOffer: NodeOffer, signal: AbortSignal): Promise<void>;
}

interface Offer {
  readonly stop: AbortController;
  readonly ended: Promise<void>;
}

/** Offers the configured devices until the signal is aborted. Resolves after all offers are withdrawn. */
export async function offerNodeDevices(parts: OfferOptions, signal: AbortSignal): Promise<void> {
  const { kubevirts } = parts;
  const offersByResource = new Map<string, Offer>();
  const endingOffers = new Map<string, Promise<void>>();
  const stopOffer = (resource: string, { stop, ended }: Offer): void => {
    offersByResource.delete(resource);
    endingOffers.set(resource, ended);
    stop.abort(new Error("it is no longer wanted"));
  };
  const updateOffers = (): void => {
    const wantedOffers = signal.aborted ? [] : planNodeOffers(kubevirts.list()[0]);
    for (const [resource, offer] of [...offersByResource]) {
      if (!wantedOffers.some((device) => device.resource === resource)) stopOffer(resource, offer);
    }
    for (const device of wantedOffers.filter(({ resource }) => !offersByResource.has(resource))) {
      const stop = new AbortController();
      // Two offers of one resource would listen on the same socket, so a new offer waits until the previous offer has ended.
      const previousEnd = endingOffers.get(device.resource) ?? Promise.resolve();
      const ended = previousEnd.then(() => parts.offer(device, stop.signal));
      offersByResource.set(device.resource, { stop, ended });
    }
  };
  const unsubscribe = kubevirts.onChange(updateOffers);
  updateOffers();
  const { promise: aborted, resolve } = Promise.withResolvers<undefined>();
  signal.addEventListener("abort", () => {
    resolve(undefined);
  });
  if (!signal.aborted) await aborted;
  unsubscribe();
  updateOffers();
  await Promise.all(endingOffers.values());
}
