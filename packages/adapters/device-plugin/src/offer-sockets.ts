// SPDX-License-Identifier: Apache-2.0
// Offers directories for vhost-user sockets: one directory per pod, and a mount of all directories for the dataplane.
import { messageOf, KeyedMutex, type Logger } from "@patchbay/base";

import type { PodDevices, VhostDirectories } from "@patchbay/core/interfaces";
import {
  ALL_DIRECTORIES_ALLOCATION,
  allocateDirectories,
  listDevices,
  type Offer,
  type OfferPaths,
  type ResourceProvider,
} from "./offer.ts";
import type { ContainerAllocation } from "./protocol.ts";
import { runOffer, type OfferDeps } from "./run-offer.ts";

interface SweepFacts {
  readonly existing: readonly string[];
  readonly inUse: ReadonlySet<string>;
  /** Directories that were unused at the last check and have not been allocated since. */
  readonly suspects: ReadonlySet<string>;
}

interface SweepPlan {
  readonly unused: readonly string[];
  readonly suspects: readonly string[];
}

/**
 * Plans the deletion of directories that were unused at two consecutive checks. One check does not suffice, because the
 * kubelet lists a pod only some time after it allocates the pod's devices.
 */
export function planSweep({ existing, inUse, suspects }: SweepFacts): SweepPlan {
  const unusedIds = existing.filter((id) => !inUse.has(id));
  return {
    unused: unusedIds.filter((id) => suspects.has(id)),
    suspects: unusedIds.filter((id) => !suspects.has(id)),
  };
}

interface DirectoryOfferOptions {
  readonly places: Pick<OfferPaths, "kubeletDir">;
  readonly deps: OfferDeps & { readonly directories: VhostDirectories };
}

interface SocketOfferOptions extends DirectoryOfferOptions {
  readonly deps: DirectoryOfferOptions["deps"] & { readonly podDevices: PodDevices };
  /** Interval of checks for unused directories, in milliseconds. */
  readonly sweepIntervalMs: number;
}

class SocketDirectoryProvider implements ResourceProvider {
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

  prepare(): Promise<void> {
    return this.#deps.directories.makeParents();
  }

  /** Recreates the directories, so that files of previous pods are deleted. */
  async allocate(ids: readonly string[]): Promise<ContainerAllocation> {
    const { directories } = this.#deps;
    const creations = ids.map((id) =>
      this.#mutex.runExclusive(id, async () => {
        this.#suspects.delete(id);
        await directories.remove(id);
        await directories.make(id);
      }),
    );
    await Promise.allSettled(creations); // Waits for all directories first, so that no creation is in progress when an error is thrown.
    await Promise.all(creations);
    return allocateDirectories(ids);
  }

  /** Deletes this installation's directories that two sweeps in a row found unused. Keeps those of other installations on the host. */
  async sweep(log: Logger): Promise<void> {
    const { directories, podDevices } = this.#deps;
    const offeredIds = new Set(listDevices(this.offer, true).map(({ ID }) => ID));
    const existing = (await directories.list()).filter((id) => offeredIds.has(id));
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

async function sweepPeriodically(
  provider: SocketDirectoryProvider,
  { deps, sweepIntervalMs }: SocketOfferOptions,
  signal: AbortSignal,
): Promise<void> {
  const log = deps.log.child({ resource: provider.offer.resource });
  let loggedReason = "";
  while (!signal.aborted) {
    try {
      await provider.sweep(log);
      loggedReason = "";
    } catch (error) {
      const reason = messageOf(error);
      if (reason !== loggedReason)
        log.warn("unused socket directories cannot be removed", { reason });
      loggedReason = reason;
    }
    await deps.clock.sleep(sweepIntervalMs, signal).catch(() => undefined); // The sleep rejects only after an abort, which ends the loop.
  }
}

/** Offers one directory per pod, and deletes the directories of deleted pods, until `signal` aborts. */
export async function offerSockets(
  offer: Offer,
  options: SocketOfferOptions,
  signal: AbortSignal,
): Promise<void> {
  const provider = new SocketDirectoryProvider(offer, options);
  await Promise.all([
    runOffer(provider, options, signal),
    sweepPeriodically(provider, options, signal),
  ]);
}

/** Offers a resource until `signal` aborts. The dataplane's pod requests the resource to get a mount of all socket directories. */
export function offerAllSockets(
  offer: Offer,
  options: DirectoryOfferOptions,
  signal: AbortSignal,
): Promise<void> {
  const prepare = (): Promise<void> => options.deps.directories.makeParents();
  const provider: ResourceProvider = {
    offer,
    exists: () => Promise.resolve(true),
    prepare,
    allocate: async () => {
      await prepare();
      return ALL_DIRECTORIES_ALLOCATION;
    },
  };
  return runOffer(provider, options, signal);
}
