// SPDX-License-Identifier: Apache-2.0
// Keeps one resource offered to the node's kubelet: from its start on, again after each of its restarts, in its true health.
import { basename, dirname, join } from "node:path";
import { messageOf } from "@patchbay/core/errors";
import type { Clock, Files, Logger } from "@patchbay/core/ports";
import { nameOfOffer } from "./offer.ts";
import { PLUGIN_OPTIONS, PluginServer } from "./plugin-server.ts";
import { API_VERSION, DEVICE_PLUGIN_DIRECTORY, KUBELET_SOCKET } from "./protocol.ts";
import { register } from "./register.ts";
import type { OfferPlaces, Supply } from "./supply.ts";
import { Sleeper } from "./wake.ts";

/** A kubelet that has registered us and does not come to watch is asked again after so long, milliseconds. */
const AGAIN_MS = 10_000;
/** The same of one that refused, or has its socket and does not listen yet: at first; later up to that. */
const RETRY_FIRST_MS = 100;

/** What {@link keepOffer} needs. */
export interface OfferDeps {
  readonly files: Pick<Files, "exists" | "remove" | "watchDirectory">;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * Offers it until aborted; then the kubelet counts none of it any more. Never fails: what is wrong is logged. What was given
 * stays: a kubelet names it again to containers that it starts anew.
 */
export async function keepOffer(
  supply: Supply,
  how: { readonly places: Pick<OfferPlaces, "kubeletDir">; readonly deps: OfferDeps },
  signal: AbortSignal,
): Promise<void> {
  const keeper = new OfferKeeper(supply, how);
  try {
    await keeper.keep(signal);
  } finally {
    await keeper.close();
  }
}

class OfferKeeper {
  readonly #supply: Supply;
  readonly #deps: OfferDeps;
  readonly #log: Logger;
  readonly #socket: string;
  readonly #kubeletSocket: string;
  readonly #sleeper: Sleeper;
  readonly #server: PluginServer;
  #isListening = false;
  #askedAtMs: number | undefined;
  #told = "";
  #retryMs = RETRY_FIRST_MS;

  constructor(supply: Supply, { places, deps }: Parameters<typeof keepOffer>[1]) {
    const { offer } = supply;
    this.#supply = supply;
    this.#deps = deps;
    this.#log = deps.log.child({ resource: offer.resource });
    const directory = join(places.kubeletDir, DEVICE_PLUGIN_DIRECTORY);
    this.#socket = join(directory, `patchbay-${nameOfOffer(offer)}.sock`);
    this.#kubeletSocket = join(directory, KUBELET_SOCKET);
    this.#sleeper = new Sleeper(deps.clock);
    this.#server = new PluginServer(offer, {
      watched: () => {
        this.#askedAtMs = undefined;
        this.#sleeper.wake();
      },
      give: (ids) => supply.give(ids, this.#log),
    });
  }

  async keep(signal: AbortSignal): Promise<void> {
    const wake = (): void => {
      this.#sleeper.wake();
    };
    const { watched } = this.#supply;
    for (const path of [dirname(this.#socket), ...(watched === undefined ? [] : [watched])]) {
      this.#deps.files.watchDirectory(path, wake, signal);
    }
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
    this.#server.setThere(await this.#supply.isThere());
    const hasKubelet = await files.exists(this.#kubeletSocket);
    if (!hasKubelet) {
      this.#tell("waiting for a kubelet", `${this.#kubeletSocket} does not exist`);
      return AGAIN_MS;
    }
    try {
      await this.#supply.prepare(this.#log);
      await this.#listen();
      if (this.#server.isWatched || this.#wasJustAsked()) return AGAIN_MS;
      await this.#register();
      this.#askedAtMs = clock.monotonicMs();
      this.#retryMs = RETRY_FIRST_MS;
      return AGAIN_MS;
    } catch (error) {
      // A socket may be left of a kubelet that died: the next one makes it anew, which wakes us.
      this.#tell("resource is not offered", messageOf(error));
      const retryMs = this.#retryMs;
      this.#retryMs = Math.min(retryMs * 2, AGAIN_MS);
      return retryMs;
    }
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
      resourceName: this.#supply.offer.resource,
      options: PLUGIN_OPTIONS,
    };
    await register(this.#kubeletSocket, request, this.#deps.clock);
    this.#told = "";
    this.#log.info("offered resource to the kubelet", { count: this.#supply.offer.count });
  }

  /** Once, while it stays the same. */
  #tell(message: "waiting for a kubelet" | "resource is not offered", reason: string): void {
    if (this.#told === reason) return;
    this.#told = reason;
    this.#log.warn(message, { reason });
  }
}
