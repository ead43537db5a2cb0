// SPDX-License-Identifier: Apache-2.0
// Offers directories of vhost-user sockets: one per pod, deleted after the pod, and all together for the node's
// dataplane.
import { messageOf, KeyedMutex, type Logger } from "@patchbay/base";

import type { PodDevices, VhostDirectories } from "@patchbay/core/interfaces";
import {
  ALL_DIRECTORIES_ALLOCATION,
  allocateDirectories,
  listDevices,
  type Offer,
  type OfferPaths,
  type Supply,
} from "./offer.ts";
import type { ContainerAllocation } from "./protocol.ts";
import { runOffer, type OfferDeps } from "./run-offer.ts";

interface SweepFacts {
  readonly existing: readonly string[];
  readonly inUse: ReadonlySet<string>;
  /** Directories that were unused at the last check and have not been assigned since. */
  readonly suspects: ReadonlySet<string>;
}

interface SweepPlan {
  readonly unused: readonly string[];
  readonly suspects: readonly string[];
}

/**
 * Plans deletions. A directory must be unused at two checks, because kubelet lists a pod a little after it requested
 * the devices.
 */
export function planSweep({ existing, inUse, suspects }: SweepFacts): SweepPlan {
  const free = existing.filter((id) => !inUse.has(id));
  return {
    unused: free.filter((id) => suspects.has(id)),
    suspects: free.filter((id) => !suspects.has(id)),
  };
}

interface DirectoryOfferOptions {
  readonly places: Pick<OfferPaths, "kubeletDir">;
  readonly deps: OfferDeps & { readonly directories: VhostDirectories };
}

interface SocketOfferOptions extends DirectoryOfferOptions {
  readonly deps: DirectoryOfferOptions["deps"] & { readonly podDevices: PodDevices };
  /** Milliseconds between checks for directories that pods still use. */
  readonly sweepEveryMs: number;
}

class SocketSupply implements Supply {
  readonly offer: Offer;
  readonly #deps: SocketOfferOptions["deps"];
  readonly #mutex = new KeyedMutex();
  #suspects = new Set<string>();

  constructor(offer: Offer, { deps }: SocketOfferOptions) {
    this.offer = offer;
    this.#deps = deps;
  }

  exists(): Promise<boolean> {
    return Promise.resolve(true);
  }

  /** Creates the parents, without which a node offers no directories. Directories are created on demand. */
  prepare(): Promise<void> {
    return this.#deps.directories.makeParents();
  }

  /** Recreates the directories, so that files of previous pods are deleted. */
  async allocate(ids: readonly string[]): Promise<ContainerAllocation> {
    const { directories } = this.#deps;
    const made = ids.map((id) =>
      this.#mutex.runExclusive(id, async () => {
        this.#suspects.delete(id);
        await directories.remove(id);
        await directories.make(id);
      }),
    );
    await Promise.allSettled(made); // no directory is still being created when an error is reported
    await Promise.all(made);
    return allocateDirectories(ids);
  }

  /**
   * Deletes unused directories, except those of other installations, for example of a standalone machine on the same
   * host.
   */
  async sweep(log: Logger): Promise<void> {
    const { directories, podDevices } = this.#deps;
    const own = new Set(listDevices(this.offer, true).map(({ ID }) => ID));
    const existing = (await directories.list()).filter((id) => own.has(id));
    const inUse =
      existing.length === 0 ? new Set<string>() : await podDevices.listUsed(this.offer.resource);
    const { unused: deletable, suspects } = planSweep({
      existing,
      inUse,
      suspects: this.#suspects,
    });
    for (const id of deletable) {
      await this.#mutex.runExclusive(id, async () => {
        if (!this.#suspects.has(id)) return;
        await directories.remove(id);
        log.info("removed directory of sockets", { directory: id });
      });
    }
    this.#suspects = new Set(suspects);
  }
}

/** Sweeps until aborted, and logs each failure once. */
async function sweepPeriodically(
  supply: SocketSupply,
  { deps, sweepEveryMs }: SocketOfferOptions,
  signal: AbortSignal,
): Promise<void> {
  const log = deps.log.child({ resource: supply.offer.resource });
  let loggedReason = "";
  while (!signal.aborted) {
    try {
      await supply.sweep(log);
      loggedReason = "";
    } catch (error) {
      const reason = messageOf(error);
      if (reason !== loggedReason)
        log.warn("unused socket directories cannot be removed", { reason });
      loggedReason = reason;
    }
    await deps.clock.sleep(sweepEveryMs, signal).catch(() => undefined); // aborted: the loop ends
  }
}

/** Offers directories until aborted, and deletes those of deleted pods. */
export async function offerSockets(
  offer: Offer,
  options: SocketOfferOptions,
  signal: AbortSignal,
): Promise<void> {
  const supply = new SocketSupply(offer, options);
  await Promise.all([
    runOffer(supply, options, signal),
    sweepPeriodically(supply, options, signal),
  ]);
}

/** Offers all directories of the node together until aborted. */
export function offerAllSockets(
  offer: Offer,
  options: DirectoryOfferOptions,
  signal: AbortSignal,
): Promise<void> {
  const prepare = (): Promise<void> => options.deps.directories.makeParents();
  const supply: Supply = {
    offer,
    exists: () => Promise.resolve(true),
    prepare,
    allocate: async () => {
      await prepare();
      return ALL_DIRECTORIES_ALLOCATION;
    },
  };
  return runOffer(supply, options, signal);
}
