// SPDX-License-Identifier: Apache-2.0
// Offers directories of vhost-user sockets: each is one pod's, and goes when its pod has gone; and all of them together to
// the dataplane of the node.
import { messageOf } from "@patchbay/core/errors";
import { KeyedMutex } from "@patchbay/core/keyed-mutex";
import type { Logger, PodDevices, VhostDirectories } from "@patchbay/core/ports";
import { keepOffer, type OfferDeps } from "./keep-offer.ts";
import { ALL_DIRECTORIES, giveDirectories, listDevices, type Offer } from "./offer.ts";
import type { ContainerAllocation } from "./protocol.ts";
import type { OfferPlaces, Supply } from "./supply.ts";
import { planSweep } from "./sweep.ts";

/** How directories are offered. */
export interface DirectoriesHow {
  readonly places: Pick<OfferPlaces, "kubeletDir">;
  readonly deps: OfferDeps & { readonly directories: VhostDirectories };
}

/** How directories of pods are offered, and taken back. */
export interface SocketsHow extends DirectoriesHow {
  readonly deps: DirectoriesHow["deps"] & { readonly podDevices: PodDevices };
  /** How often it is asked which of them pods still have, milliseconds. */
  readonly sweepEveryMs: number;
}

class SocketSupply implements Supply {
  readonly offer: Offer;
  readonly #deps: SocketsHow["deps"];
  readonly #mutex = new KeyedMutex();
  #suspects = new Set<string>();

  constructor(offer: Offer, { deps }: SocketsHow) {
    this.offer = offer;
    this.#deps = deps;
  }

  isThere(): Promise<boolean> {
    return Promise.resolve(true);
  }

  /** Each is made when a pod gets it; a node on which none can be made offers none. */
  prepare(): Promise<void> {
    return this.#deps.directories.makeParents();
  }

  /** Anew: what the pod before has left there is none of this one's. */
  async give(ids: readonly string[]): Promise<ContainerAllocation> {
    const { directories } = this.#deps;
    const made = ids.map((id) =>
      this.#mutex.runExclusive(id, async () => {
        this.#suspects.delete(id);
        await directories.remove(id);
        await directories.make(id);
      }),
    );
    await Promise.allSettled(made); // nothing goes on behind an error
    await Promise.all(made);
    return giveDirectories(ids);
  }

  /** Those of others (a machine of this host's has its own below the same parent) are not ours to sweep. */
  async sweep(log: Logger): Promise<void> {
    const { directories, podDevices } = this.#deps;
    const own = new Set(listDevices(this.offer, true).map(({ ID }) => ID));
    const there = (await directories.list()).filter((id) => own.has(id));
    const inUse =
      there.length === 0 ? new Set<string>() : await podDevices.listUsed(this.offer.resource);
    const { gone, suspects } = planSweep({ there, inUse, suspects: this.#suspects });
    for (const id of gone) {
      await this.#mutex.runExclusive(id, async () => {
        if (!this.#suspects.has(id)) return; // somebody was given it meanwhile
        await directories.remove(id);
        log.info("removed directory of sockets", { directory: id });
      });
    }
    this.#suspects = new Set(suspects);
  }
}

/** Until aborted. What is wrong is logged, once while it stays the same. */
async function keepSwept(
  supply: SocketSupply,
  { deps, sweepEveryMs }: SocketsHow,
  signal: AbortSignal,
): Promise<void> {
  const log = deps.log.child({ resource: supply.offer.resource });
  let told = "";
  while (!signal.aborted) {
    try {
      await supply.sweep(log);
      told = "";
    } catch (error) {
      const reason = messageOf(error);
      if (reason !== told) log.warn("directories of sockets are not swept", { reason });
      told = reason;
    }
    await deps.clock.sleep(sweepEveryMs, signal).catch(() => undefined); // aborted: the loop ends
  }
}

/** Offers directories until aborted, and removes those that no pod has any more; as {@link keepOffer}. */
export async function offerSockets(
  offer: Offer,
  how: SocketsHow,
  signal: AbortSignal,
): Promise<void> {
  const supply = new SocketSupply(offer, how);
  await Promise.all([keepOffer(supply, how, signal), keepSwept(supply, how, signal)]);
}

/** Offers all directories of the node together until aborted; as {@link keepOffer}. */
export function offerAllSockets(
  offer: Offer,
  how: DirectoriesHow,
  signal: AbortSignal,
): Promise<void> {
  const prepare = (): Promise<void> => how.deps.directories.makeParents();
  const supply: Supply = {
    offer,
    isThere: () => Promise.resolve(true),
    prepare,
    give: async () => {
      await prepare();
      return ALL_DIRECTORIES;
    },
  };
  return keepOffer(supply, how, signal);
}
