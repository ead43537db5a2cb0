// SPDX-License-Identifier: Apache-2.0
// Offers a resource to the node's kubelet, and registers the resource again after each kubelet restart.
import { basename, dirname, join } from "node:path";
import { AppError, messageOf, type Clock, type Logger } from "@patchbay/base";
import type { Files } from "@patchbay/core/interfaces";
import { callKubelet } from "./kubelet-client.ts";
import { toOfferName, type OfferPaths, type ResourceProvider } from "./offer.ts";
import { PLUGIN_OPTIONS, PluginServer } from "./plugin-server.ts";
import {
  API_VERSION,
  DEVICE_PLUGIN_DIRECTORY,
  KUBELET_SOCKET,
  loadServices,
  type RegisterRequest,
} from "./protocol.ts";

/** Registers a plugin, whose server must already listen. @throws AppError with DEVICE_NOT_REGISTERED */
async function register(
  kubeletSocket: string,
  request: RegisterRequest,
  clock: Pick<Clock, "now">,
): Promise<void> {
  const service = loadServices().registration;
  try {
    await callKubelet(kubeletSocket, { service, method: "Register", request }, clock);
  } catch (cause) {
    const { resourceName: resource } = request;
    const reason = messageOf(cause);
    throw new AppError("DEVICE_NOT_REGISTERED", { resource, kubeletSocket, reason }, { cause });
  }
}

class Sleeper {
  readonly #clock: Clock;
  #isWoken = false;
  #wake: (() => void) | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  wake(): void {
    this.#isWoken = true;
    this.#wake?.();
  }

  /** Waits at most `ms` ms, until the signal is aborted or `wake` is called. Returns at once if `wake` was called since the last wait. */
  async sleep(ms: number, signal: AbortSignal): Promise<void> {
    if (!this.#isWoken && !signal.aborted) {
      const wakeUp = new AbortController();
      this.#wake = () => {
        wakeUp.abort(new Error("woken"));
      };
      await this.#clock.sleep(ms, AbortSignal.any([signal, wakeUp.signal])).catch(() => undefined);
      this.#wake = undefined;
    }
    this.#isWoken = false;
  }
}

const RETRY_MAX_MS = 10_000;
/** Delay in milliseconds after the first failed registration. Each further failure doubles the delay. */
const RETRY_FIRST_MS = 100;

export interface OfferDeps {
  readonly files: Pick<Files, "exists" | "remove" | "watchDirectory">;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Offers the resource until the signal is aborted, and logs failures. Running containers retain their devices afterwards. */
export async function runOffer(
  provider: ResourceProvider,
  options: { readonly places: Pick<OfferPaths, "kubeletDir">; readonly deps: OfferDeps },
  signal: AbortSignal,
): Promise<void> {
  const runner = new OfferRunner(provider, options);
  try {
    await runner.run(signal);
  } finally {
    await runner.close();
  }
}

class OfferRunner {
  readonly #provider: ResourceProvider;
  readonly #deps: OfferDeps;
  readonly #log: Logger;
  readonly #socket: string;
  readonly #kubeletSocket: string;
  readonly #sleeper: Sleeper;
  readonly #server: PluginServer;
  #isListening = false;
  #registeredAtMs: number | undefined;
  #loggedReason = "";
  #retryMs = RETRY_FIRST_MS;

  constructor(provider: ResourceProvider, { places, deps }: Parameters<typeof runOffer>[1]) {
    const { offer } = provider;
    this.#provider = provider;
    this.#deps = deps;
    this.#log = deps.log.child({ resource: offer.resource });
    const directory = join(places.kubeletDir, DEVICE_PLUGIN_DIRECTORY);
    this.#socket = join(directory, `patchbay-${toOfferName(offer)}.sock`);
    this.#kubeletSocket = join(directory, KUBELET_SOCKET);
    this.#sleeper = new Sleeper(deps.clock);
    this.#server = new PluginServer(offer, {
      onWatchersChanged: () => {
        this.#registeredAtMs = undefined;
        this.#sleeper.wake();
      },
      allocate: (ids) => provider.allocate(ids, this.#log),
    });
  }

  async run(signal: AbortSignal): Promise<void> {
    const wake = (): void => {
      this.#sleeper.wake();
    };
    const { watchedDirectory } = this.#provider;
    for (const path of [
      dirname(this.#socket),
      ...(watchedDirectory === undefined ? [] : [watchedDirectory]),
    ]) {
      this.#deps.files.watchDirectory(path, wake, signal);
    }
    while (!signal.aborted) {
      await this.#sleeper.sleep(await this.#reconcile(), signal);
    }
  }

  async close(): Promise<void> {
    this.#server.close();
    if (this.#isListening) await this.#deps.files.remove(this.#socket);
  }

  /** Updates the offer. Idempotent. Returns the maximum delay in milliseconds until the next update. */
  async #reconcile(): Promise<number> {
    const { files, clock } = this.#deps;
    this.#server.setHealthy(await this.#provider.exists());
    const hasKubelet = await files.exists(this.#kubeletSocket);
    if (!hasKubelet) {
      this.#logOnce("waiting for a kubelet", `${this.#kubeletSocket} does not exist`);
      return RETRY_MAX_MS;
    }
    try {
      await this.#provider.prepare(this.#log);
      await this.#listen();
      if (this.#server.isWatched || this.#wasJustRegistered()) return RETRY_MAX_MS;
      await this.#register();
      this.#registeredAtMs = clock.monotonicMs();
      this.#retryMs = RETRY_FIRST_MS;
      return RETRY_MAX_MS;
    } catch (error) {
      // The registration fails, for example, if a stopped kubelet left its socket. The next kubelet's socket triggers another update.
      this.#logOnce("resource is not offered", messageOf(error));
      const retryMs = this.#retryMs;
      this.#retryMs = Math.min(retryMs * 2, RETRY_MAX_MS);
      return retryMs;
    }
  }

  #wasJustRegistered(): boolean {
    const { clock } = this.#deps;
    return (
      this.#registeredAtMs !== undefined &&
      clock.monotonicMs() - this.#registeredAtMs < RETRY_MAX_MS
    );
  }

  /** Opens the plugin's socket, or opens it again if it is missing, because a starting kubelet removes the sockets of all plugins. */
  async #listen(): Promise<void> {
    const { files } = this.#deps;
    if (this.#isListening && (await files.exists(this.#socket))) return;
    this.#server.close();
    this.#registeredAtMs = undefined;
    await files.remove(this.#socket);
    await this.#server.listen(this.#socket);
    this.#isListening = true;
  }

  async #register(): Promise<void> {
    const request = {
      version: API_VERSION,
      endpoint: basename(this.#socket),
      resourceName: this.#provider.offer.resource,
      options: PLUGIN_OPTIONS,
    };
    await register(this.#kubeletSocket, request, this.#deps.clock);
    this.#loggedReason = "";
    this.#log.info("offered resource to the kubelet", { count: this.#provider.offer.count });
  }

  #logOnce(message: "waiting for a kubelet" | "resource is not offered", reason: string): void {
    if (this.#loggedReason === reason) return;
    this.#loggedReason = reason;
    this.#log.warn(message, { reason });
  }
}
