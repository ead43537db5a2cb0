// SPDX-License-Identifier: Apache-2.0
// Offers a device, with a copy of its node for containers, because a container runtime passes owner and mode of the
// node's file on.
import { dirname, join } from "node:path";
import { AppError, type Logger } from "@patchbay/base";
import type { DeviceNodes, Files } from "@patchbay/core/interfaces";
import { runOffer, type OfferDeps } from "./run-offer.ts";
import {
  copyPath,
  type DeviceOffer,
  allocateDevice,
  type OfferPaths,
  type Supply,
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

/** Offers a device until aborted, like {@link runOffer}. */
export function offerDevice(
  offer: DeviceOffer,
  how: DeviceOfferOptions,
  signal: AbortSignal,
): Promise<void> {
  return runOffer(new DeviceSupply(offer, how), how, signal);
}

class DeviceSupply implements Supply {
  readonly offer: DeviceOffer;
  readonly watchedDirectory: string;
  readonly #options: DeviceOfferOptions;
  readonly #files: Pick<Files, "exists">;
  readonly #path: string;
  #copying: Promise<unknown> = Promise.resolve();

  constructor(offer: DeviceOffer, how: DeviceOfferOptions) {
    this.offer = offer;
    this.#options = how;
    this.#files = how.deps.files;
    this.#path = join(how.places.hostRoot, offer.path);
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

  /** Serialized; each run checks again, because the previous one may have run before a change. */
  #copyDevice(log: Logger): Promise<boolean> {
    const { places, user, deps } = this.#options;
    const path = copyPath(this.offer);
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
