// SPDX-License-Identifier: Apache-2.0
// Offers a copy of a device node. The copy belongs to the launchers' user, because launchers may lack the right to open the original:
// container runtimes preserve a node's owner and mode in containers.
import { dirname, join } from "node:path";
import { AppError, type Logger } from "@patchbay/base";
import type { DeviceNodes, Files } from "@patchbay/core/interfaces";
import { runOffer, type OfferDeps } from "./run-offer.ts";
import {
  findCopyPath,
  type DeviceOffer,
  allocateDevice,
  type OfferPaths,
  type ResourceProvider,
} from "./offer.ts";
import type { ContainerAllocation } from "./protocol.ts";

export interface DeviceUser {
  readonly uid: number;
  readonly gid: number;
}

const COPY_MODE = 0o600;

export interface DeviceOfferOptions {
  readonly places: OfferPaths;
  readonly user: DeviceUser;
  readonly deps: OfferDeps & { readonly nodes: DeviceNodes };
}

/** Offers a device until the signal is aborted, like {@link runOffer}. */
export function offerDevice(
  offer: DeviceOffer,
  options: DeviceOfferOptions,
  signal: AbortSignal,
): Promise<void> {
  return runOffer(new DeviceProvider(offer, options), options, signal);
}

class DeviceProvider implements ResourceProvider {
  readonly offer: DeviceOffer;
  readonly watchedDirectory: string;
  readonly #options: DeviceOfferOptions;
  readonly #files: Pick<Files, "exists">;
  readonly #path: string;
  #copying: Promise<unknown> = Promise.resolve();

  constructor(offer: DeviceOffer, options: DeviceOfferOptions) {
    this.offer = offer;
    this.#options = options;
    this.#files = options.deps.files;
    this.#path = join(options.places.hostRoot, offer.path);
    this.watchedDirectory = dirname(this.#path);
  }

  exists(): Promise<boolean> {
    return this.#files.exists(this.#path);
  }

  async prepare(log: Logger): Promise<void> {
    await this.#copyDevice(log);
  }

  async allocate(_ids: readonly string[], log: Logger): Promise<ContainerAllocation> {
    if (await this.#copyDevice(log)) return allocateDevice(this.offer);
    const { resource, path } = this.offer;
    throw new AppError("DEVICE_MISSING", { resource, path });
  }

  /** Updates the copy of the device node after previous calls have ended. Always checks the original node, which may have changed. */
  #copyDevice(log: Logger): Promise<boolean> {
    const { places, user, deps } = this.#options;
    const path = findCopyPath(this.offer);
    const copy = { source: this.#path, path: join(places.hostRoot, path), ...user };
    const update = async (): Promise<boolean> => {
      const outcome = await deps.nodes.ensureCopy({ ...copy, mode: COPY_MODE });
      if (outcome === "made") log.info("made device node", { path });
      return outcome !== "removed";
    };
    const copying = this.#copying.then(update);
    this.#copying = copying.catch(() => undefined);
    return copying;
  }
}
