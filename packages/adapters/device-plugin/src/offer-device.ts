// SPDX-License-Identifier: Apache-2.0
// Offers a device, and keeps beside it the copy that containers get: a runtime gives a device with owner and mode of the
// node's file.
import { dirname, join } from "node:path";
import { AppError } from "@patchbay/core/errors";
import type { DeviceNodes, Files, Logger } from "@patchbay/core/ports";
import { keepOffer, type OfferDeps } from "./keep-offer.ts";
import { copyOfOffer, giveDevice, type DeviceOffer } from "./offer.ts";
import type { ContainerAllocation } from "./protocol.ts";
import type { OfferPlaces, Supply } from "./supply.ts";

/** Whose containers get the device. */
export interface DeviceUser {
  readonly uid: number;
  readonly gid: number;
}

/** Read and write, for that user alone. */
const COPY_MODE = 0o600;

/** How a device is offered. */
export interface DeviceHow {
  readonly places: OfferPlaces;
  readonly user: DeviceUser;
  readonly deps: OfferDeps & { readonly nodes: DeviceNodes };
}

/** Offers a device until aborted; as {@link keepOffer}. */
export function offerDevice(
  offer: DeviceOffer,
  how: DeviceHow,
  signal: AbortSignal,
): Promise<void> {
  return keepOffer(new DeviceSupply(offer, how), how, signal);
}

class DeviceSupply implements Supply {
  readonly offer: DeviceOffer;
  readonly watched: string;
  readonly #how: DeviceHow;
  readonly #files: Pick<Files, "exists">;
  /** The device's file as it is seen from here. */
  readonly #path: string;
  #copying: Promise<unknown> = Promise.resolve();

  constructor(offer: DeviceOffer, how: DeviceHow) {
    this.offer = offer;
    this.#how = how;
    this.#files = how.deps.files;
    this.#path = join(how.places.hostRoot, offer.path);
    this.watched = dirname(this.#path);
  }

  isThere(): Promise<boolean> {
    return this.#files.exists(this.#path);
  }

  async prepare(log: Logger): Promise<void> {
    await this.#keepCopy(log);
  }

  async give(_ids: readonly string[], log: Logger): Promise<ContainerAllocation> {
    if (await this.#keepCopy(log)) return giveDevice(this.offer);
    const { resource, path } = this.offer;
    throw new AppError("DEVICE_MISSING", { resource, path });
  }

  /** Whether there is a device. One at a time, and each looks anew: the one before may have looked before a change. */
  #keepCopy(log: Logger): Promise<boolean> {
    const { places, user, deps } = this.#how;
    const path = copyOfOffer(this.offer);
    const copy = { source: this.#path, path: join(places.hostRoot, path), ...user };
    const keep = async (): Promise<boolean> => {
      const outcome = await deps.nodes.keepCopy({ ...copy, mode: COPY_MODE });
      if (outcome === "made") log.info("made device node", { path });
      return outcome !== "removed";
    };
    const kept = this.#copying.then(keep);
    this.#copying = kept.catch(() => undefined); // who asked is told
    return kept;
  }
}
