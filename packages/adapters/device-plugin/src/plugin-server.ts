// SPDX-License-Identifier: Apache-2.0
// Answers a kubelet's questions about one resource, at a socket beside the kubelet's.
import {
  Server,
  ServerCredentials,
  status,
  type sendUnaryData,
  type ServerUnaryCall,
  type ServerWritableStream,
} from "@grpc/grpc-js";
import { isAppError, messageOf } from "@patchbay/core/errors";
import { checkKnown, listDevices, NOTHING, type Offer } from "./offer.ts";
import {
  loadServices,
  type AllocateRequest,
  type AllocateResponse,
  type ContainerAllocation,
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
  /** Makes sure of what a container gets that asked for these. @throws where it cannot be given */
  give(ids: readonly string[]): Promise<ContainerAllocation>;
}

type Watcher = ServerWritableStream<object, { readonly devices: readonly DeviceState[] }>;

/** One resource's plugin: where it listens may come anew, who watches comes and goes. */
export class PluginServer {
  readonly #offer: Offer;
  readonly #hooks: PluginHooks;
  readonly #watchers = new Set<Watcher>();
  #server: Server | undefined;
  #isThere = false;

  constructor(offer: Offer, hooks: PluginHooks) {
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

  /** Whether there is what is offered; told to who watches when that changes. */
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
      checkKnown(this.#offer, request);
      const containerResponses = await Promise.all(
        request.containerRequests.map(async ({ devicesIds }) =>
          devicesIds.length === 0 ? NOTHING : await this.#hooks.give(devicesIds),
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
