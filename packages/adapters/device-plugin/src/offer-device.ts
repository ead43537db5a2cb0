// SPDX-License-Identifier: Apache-2.0
// Keeps one device offered to the node's kubelet: from its start on, again after each of its restarts, in its true health,
// and beside it the copy that containers get. A runtime gives a device with owner and mode of the node's file.
import { basename, dirname, join } from "node:path";
import { messageOf } from "@patchbay/core/errors";
import type { Clock, DeviceCopy, DeviceNodes, Files, Logger } from "@patchbay/core/ports";
import { copyOfOffer, nameOfOffer, type DeviceOffer } from "./offer.ts";
import { PLUGIN_OPTIONS, PluginServer } from "./plugin-server.ts";
import { API_VERSION, DEVICE_PLUGIN_DIRECTORY, KUBELET_SOCKET } from "./protocol.ts";
import { register } from "./register.ts";
import { Sleeper } from "./wake.ts";

/** A kubelet that has registered us and does not come to watch is asked again after so long, milliseconds. */
const AGAIN_MS = 10_000;
/** The same of one that refused, or has its socket and does not listen yet: at first; later up to that. */
const RETRY_FIRST_MS = 100;

/** Where things are on the node. */
export interface OfferPlaces {
  /** Of the kubelet, for example `/var/lib/kubelet`. */
  readonly kubeletDir: string;
  /** What the node's `/` is from here: `/`, or for example `/proc/1/root` in a pod. */
  readonly hostRoot: string;
}

/** Whose containers get the device. */
export interface DeviceUser {
  readonly uid: number;
  readonly gid: number;
}

/** Read and write, for that user alone. */
const COPY_MODE = 0o600;

/** What {@link offerDevice} needs. */
export interface OfferDeps {
  readonly nodes: DeviceNodes;
  readonly files: Pick<Files, "exists" | "remove" | "watchDirectory">;
  readonly clock: Clock;
  readonly log: Logger;
}

/** How a device is offered. */
export interface OfferHow {
  readonly places: OfferPlaces;
  readonly user: DeviceUser;
  readonly deps: OfferDeps;
}

/**
 * Offers a device until aborted; then the kubelet counts none of it any more. Never fails: what is wrong is logged. The
 * copy stays: a kubelet names it again to containers that it starts anew.
 */
export async function offerDevice(
  offer: DeviceOffer,
  how: OfferHow,
  signal: AbortSignal,
): Promise<void> {
  const keeper = new OfferKeeper(offer, how);
  try {
    await keeper.keep(signal);
  } finally {
    await keeper.close();
  }
}

class OfferKeeper {
  readonly #offer: DeviceOffer;
  readonly #deps: OfferDeps;
  readonly #log: Logger;
  readonly #socket: string;
  readonly #kubeletSocket: string;
  /** The device's file as it is seen from here. */
  readonly #path: string;
  readonly #copy: DeviceCopy;
  #copying: Promise<unknown> = Promise.resolve();
  readonly #sleeper: Sleeper;
  readonly #server: PluginServer;
  #isListening = false;
  #askedAtMs: number | undefined;
  #told = "";
  #retryMs = RETRY_FIRST_MS;

  constructor(offer: DeviceOffer, { places, user, deps }: OfferHow) {
    const { kubeletDir, hostRoot } = places;
    this.#offer = offer;
    this.#deps = deps;
    this.#log = deps.log.child({ resource: offer.resource });
    const directory = join(kubeletDir, DEVICE_PLUGIN_DIRECTORY);
    this.#socket = join(directory, `patchbay-${nameOfOffer(offer)}.sock`);
    this.#kubeletSocket = join(directory, KUBELET_SOCKET);
    this.#path = join(hostRoot, offer.path);
    const copyPath = join(hostRoot, copyOfOffer(offer));
    this.#copy = { source: this.#path, path: copyPath, ...user, mode: COPY_MODE };
    this.#sleeper = new Sleeper(deps.clock);
    this.#server = new PluginServer(offer, {
      watched: () => {
        this.#askedAtMs = undefined;
        this.#sleeper.wake();
      },
      prepare: () => this.#keepCopy(),
    });
  }

  async keep(signal: AbortSignal): Promise<void> {
    const wake = (): void => {
      this.#sleeper.wake();
    };
    this.#deps.files.watchDirectory(dirname(this.#socket), wake, signal);
    this.#deps.files.watchDirectory(dirname(this.#path), wake, signal);
    while (!signal.aborted) {
      await this.#sleeper.sleep(await this.#look(), signal);
    }
  }

  async close(): Promise<void> {
    this.#server.close();
    if (this.#isListening) await this.#deps.files.remove(this.#socket);
  }

  /** Brings about what is missing; may be repeated. Returns when to look again although nothing changes, milliseconds. */
  async #look(): Promise<number> {
    const { files, clock } = this.#deps;
    this.#server.setThere(await files.exists(this.#path));
    const hasKubelet = await files.exists(this.#kubeletSocket);
    if (!hasKubelet) {
      this.#tell("waiting for a kubelet", `${this.#kubeletSocket} does not exist`);
      return AGAIN_MS;
    }
    try {
      await this.#keepCopy();
      await this.#listen();
      if (this.#server.isWatched || this.#wasJustAsked()) return AGAIN_MS;
      await this.#register();
      this.#askedAtMs = clock.monotonicMs();
      this.#retryMs = RETRY_FIRST_MS;
      return AGAIN_MS;
    } catch (error) {
      // A socket may be left of a kubelet that died: the next one makes it anew, which wakes us.
      this.#tell("device is not offered", messageOf(error));
      const retryMs = this.#retryMs;
      this.#retryMs = Math.min(retryMs * 2, AGAIN_MS);
      return retryMs;
    }
  }

  /** Whether there is a device. One at a time, and each looks anew: the one before may have looked before a change. */
  #keepCopy(): Promise<boolean> {
    const keep = async (): Promise<boolean> => {
      const outcome = await this.#deps.nodes.keepCopy(this.#copy);
      if (outcome === "made")
        this.#log.info("made device node", { path: copyOfOffer(this.#offer) });
      return outcome !== "removed";
    };
    const kept = this.#copying.then(keep);
    this.#copying = kept.catch(() => undefined); // who asked is told
    return kept;
  }

  #wasJustAsked(): boolean {
    const { clock } = this.#deps;
    return this.#askedAtMs !== undefined && clock.monotonicMs() - this.#askedAtMs < AGAIN_MS;
  }

  /** A kubelet that starts removes all sockets of plugins. */
  async #listen(): Promise<void> {
    const { files } = this.#deps;
    if (this.#isListening && (await files.exists(this.#socket))) return;
    this.#server.close();
    this.#askedAtMs = undefined;
    await files.remove(this.#socket);
    await this.#server.listen(this.#socket);
    this.#isListening = true;
  }

  async #register(): Promise<void> {
    const request = {
      version: API_VERSION,
      endpoint: basename(this.#socket),
      resourceName: this.#offer.resource,
      options: PLUGIN_OPTIONS,
    };
    await register(this.#kubeletSocket, request, this.#deps.clock);
    this.#told = "";
    this.#log.info("offered device to the kubelet", { count: this.#offer.count });
  }

  /** Once, while it stays the same. */
  #tell(message: "waiting for a kubelet" | "device is not offered", reason: string): void {
    if (this.#told === reason) return;
    this.#told = reason;
    this.#log.warn(message, { reason });
  }
}
