// SPDX-License-Identifier: Apache-2.0
// Answers a kubelet's questions about one device, at a socket beside the kubelet's.
import {
  Server,
  ServerCredentials,
  status,
  type sendUnaryData,
  type ServerUnaryCall,
  type ServerWritableStream,
} from "@grpc/grpc-js";
import { isAppError, messageOf } from "@patchbay/core/errors";
import { allocate, listDevices, type DeviceOffer } from "./offer.ts";
import {
  loadServices,
  type AllocateRequest,
  type AllocateResponse,
  type DeviceState,
  type PluginOptions,
} from "./protocol.ts";

/** What is told when a kubelet registers us, and asks again. */
export const PLUGIN_OPTIONS: PluginOptions = {
  preStartRequired: false,
  getPreferredAllocationAvailable: false,
};

/** Who is asked and told by a plugin. */
export interface PluginHooks {
  /** A kubelet has begun or ended to watch. */
  watched(): void;
  /** Makes sure of what containers get; whether there is such a device. */
  prepare(): Promise<boolean>;
}

type Watcher = ServerWritableStream<object, { readonly devices: readonly DeviceState[] }>;

/** One device's plugin: where it listens may come anew, who watches comes and goes. */
export class PluginServer {
  readonly #offer: DeviceOffer;
  readonly #hooks: PluginHooks;
  readonly #watchers = new Set<Watcher>();
  #server: Server | undefined;
  #isThere = false;

  constructor(offer: DeviceOffer, hooks: PluginHooks) {
    this.#offer = offer;
    this.#hooks = hooks;
  }

  /** Whether a kubelet holds the list of devices open. */
  get isWatched(): boolean {
    return this.#watchers.size > 0;
  }

  /** Listens at that path, where nothing may be; what listened before ends. */
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

  /** Whether the device's file is there; told to who watches when that changes. */
  setThere(isThere: boolean): void {
    if (this.#isThere === isThere) return;
    this.#isThere = isThere;
    for (const watcher of this.#watchers) watcher.write({ devices: this.#devices() });
  }

  close(): void {
    this.#watchers.clear();
    this.#server?.forceShutdown();
    this.#server = undefined;
  }

  #devices(): readonly DeviceState[] {
    return listDevices(this.#offer, this.#isThere);
  }

  #add(watcher: Watcher): void {
    this.#watchers.add(watcher);
    const forget = (): void => {
      if (this.#watchers.delete(watcher)) this.#hooks.watched();
    };
    for (const end of ["cancelled", "close", "error"]) watcher.on(end, forget);
    watcher.write({ devices: this.#devices() });
    this.#hooks.watched();
  }

  async #allocate(
    request: AllocateRequest,
    answer: sendUnaryData<AllocateResponse>,
  ): Promise<void> {
    try {
      answer(null, allocate(this.#offer, request, await this.#hooks.prepare()));
    } catch (error) {
      const isUnknown = isAppError(error, "DEVICE_UNKNOWN");
      const code = isUnknown ? status.INVALID_ARGUMENT : status.FAILED_PRECONDITION;
      answer({ code, details: messageOf(error) });
    }
  }
}
