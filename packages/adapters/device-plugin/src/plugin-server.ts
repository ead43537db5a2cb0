// SPDX-License-Identifier: Apache-2.0
// Server of the device plugin API for one resource, on a socket next to the kubelet's socket.
import {
  Server,
  ServerCredentials,
  status,
  type sendUnaryData,
  type ServerUnaryCall,
  type ServerWritableStream,
} from "@grpc/grpc-js";
import { isAppError, messageOf } from "@patchbay/base";
import { requireKnownDevices, listDevices, EMPTY_ALLOCATION, type Offer } from "./offer.ts";
import {
  loadServices,
  type AllocateRequest,
  type AllocateResponse,
  type ContainerAllocation,
  type DeviceState,
  type PluginOptions,
} from "./protocol.ts";

export const PLUGIN_OPTIONS: PluginOptions = {
  preStartRequired: false,
  getPreferredAllocationAvailable: false,
};

export interface PluginCallbacks {
  onWatchersChanged(): void;
  /** Returns the container's allocation for the devices with these IDs. @throws if the devices cannot be allocated */
  allocate(ids: readonly string[]): Promise<ContainerAllocation>;
}

type Watcher = ServerWritableStream<object, { readonly devices: readonly DeviceState[] }>;

export class PluginServer {
  readonly #offer: Offer;
  readonly #callbacks: PluginCallbacks;
  readonly #watchers = new Set<Watcher>();
  #server: Server | undefined;
  #isHealthy = false;

  constructor(offer: Offer, callbacks: PluginCallbacks) {
    this.#offer = offer;
    this.#callbacks = callbacks;
  }

  get isWatched(): boolean {
    return this.#watchers.size > 0;
  }

  /** Closes the previous server, and listens on a new socket. `path` must not exist. */
  async listen(path: string): Promise<void> {
    this.close();
    const server = new Server();
    server.addService(loadServices().devicePlugin, {
      GetDevicePluginOptions: (_call: unknown, answer: sendUnaryData<PluginOptions>) => {
        answer(null, PLUGIN_OPTIONS);
      },
      ListAndWatch: (watcher: Watcher) => {
        this.#add(watcher);
      },
      GetPreferredAllocation: (_call: unknown, answer: sendUnaryData<object>) => {
        answer({ code: status.UNIMPLEMENTED, details: "any of the devices is as good" });
      },
      Allocate: (
        { request }: ServerUnaryCall<AllocateRequest, AllocateResponse>,
        answer: sendUnaryData<AllocateResponse>,
      ) => {
        void this.#allocate(request, answer);
      },
      PreStartContainer: (_call: unknown, answer: sendUnaryData<object>) => {
        answer(null, {});
      },
    });
    const { promise, resolve, reject } = Promise.withResolvers<undefined>();
    server.bindAsync(`unix:${path}`, ServerCredentials.createInsecure(), (error) => {
      if (error === null) resolve(undefined);
      else reject(error);
    });
    this.#server = server;
    await promise;
  }

  setHealthy(isHealthy: boolean): void {
    if (this.#isHealthy === isHealthy) return;
    this.#isHealthy = isHealthy;
    for (const watcher of this.#watchers) watcher.write({ devices: this.#devices() });
  }

  close(): void {
    this.#watchers.clear();
    this.#server?.forceShutdown();
    this.#server = undefined;
  }

  #devices(): readonly DeviceState[] {
    return listDevices(this.#offer, this.#isHealthy);
  }

  #add(watcher: Watcher): void {
    this.#watchers.add(watcher);
    const removeWatcher = (): void => {
      if (this.#watchers.delete(watcher)) this.#callbacks.onWatchersChanged();
    };
    for (const eventName of ["cancelled", "close", "error"]) watcher.on(eventName, removeWatcher);
    watcher.write({ devices: this.#devices() });
    this.#callbacks.onWatchersChanged();
  }

  async #allocate(
    request: AllocateRequest,
    answer: sendUnaryData<AllocateResponse>,
  ): Promise<void> {
    try {
      requireKnownDevices(this.#offer, request);
      const containerResponses = await Promise.all(
        request.containerRequests.map(async ({ devicesIds }) =>
          devicesIds.length === 0 ? EMPTY_ALLOCATION : await this.#callbacks.allocate(devicesIds),
        ),
      );
      answer(null, { containerResponses });
    } catch (error) {
      const isUnknown = isAppError(error, "DEVICE_UNKNOWN");
      const code = isUnknown ? status.INVALID_ARGUMENT : status.FAILED_PRECONDITION;
      answer({ code, details: messageOf(error) });
    }
  }
}
