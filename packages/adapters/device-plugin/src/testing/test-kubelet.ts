// SPDX-License-Identifier: Apache-2.0
// Device manager of a test kubelet. It checks each message and records violations of the protocol.
import { existsSync, mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import {
  credentials,
  loadPackageDefinition,
  Server,
  ServerCredentials,
  status,
  type Client,
  type ClientReadableStream,
  type sendUnaryData,
  type ServerUnaryCall,
  type ServiceClientConstructor,
  type ServiceError,
} from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";

interface Options {
  readonly preStartRequired: boolean;
  readonly getPreferredAllocationAvailable: boolean;
}

interface Registration {
  readonly version: string;
  readonly endpoint: string;
  readonly resourceName: string;
  readonly options: Options | null;
}

interface Device {
  readonly ID: string;
  readonly health: string;
  readonly topology: unknown;
}

export interface Allocation {
  readonly envs: object;
  readonly mounts: readonly { containerPath: string; hostPath: string; readOnly: boolean }[];
  readonly devices: readonly { containerPath: string; hostPath: string; permissions: string }[];
  readonly annotations: object;
  readonly cdiDevices: readonly unknown[];
}

const services = loadPackageDefinition(
  loadSync(join(import.meta.dirname, "kubelet.proto"), { defaults: true, longs: String }),
)["v1beta1"] as unknown as Record<"Registration" | "DevicePlugin", ServiceClientConstructor>;

/** Plugin that registered. */
class Endpoint {
  readonly registration: Registration;
  devices: readonly Device[] = [];
  isOpen = true;
  readonly #client: Client;
  readonly #socket: string;
  #stream: ClientReadableStream<{ readonly devices: readonly Device[] }> | undefined;

  constructor(registration: Registration, socket: string) {
    this.registration = registration;
    this.#socket = socket;
    this.#client = new services.DevicePlugin(`unix:${socket}`, credentials.createInsecure(), {
      "grpc.use_local_subchannel_pool": 1,
    });
  }

  call<Answer>(method: string, request: object): Promise<Answer> {
    const { promise, resolve, reject } = Promise.withResolvers<Answer>();
    const { path, requestSerialize, responseDeserialize } = findDefinition(method);
    const answer = (error: ServiceError | null, response?: Answer): void => {
      if (error === null) resolve(response as Answer);
      else reject(error);
    };
    this.#client.makeUnaryRequest(path, requestSerialize, responseDeserialize, request, answer);
    return promise;
  }

  watch(check: (devices: readonly Device[]) => void): void {
    const { path, requestSerialize, responseDeserialize } = findDefinition("ListAndWatch");
    const stream = this.#client.makeServerStreamRequest<object, { devices: readonly Device[] }>(
      path,
      requestSerialize,
      responseDeserialize,
      {},
    );
    stream.on("data", ({ devices }: { devices: readonly Device[] }) => {
      check(devices);
      this.devices = devices;
    });
    stream.on("error", () => {
      this.isOpen = false;
    });
    stream.on("end", () => {
      this.isOpen = false;
    });
    this.#stream = stream;
  }

  get hasSocket(): boolean {
    return existsSync(this.#socket);
  }

  close(): void {
    this.#stream?.cancel();
    this.#client.close();
  }
}

function findDefinition(method: string): ServiceClientConstructor["service"][string] {
  const found = services.DevicePlugin.service[method];
  if (found === undefined) throw new Error(`no method ${method}`);
  return found;
}

/** Kubelet below a directory; it may be started, stopped and started again. */
export class TestKubelet {
  /** Violations of the protocol by plugins. */
  readonly faults: string[] = [];
  /** All registrations since the first start. */
  readonly registrations: Registration[] = [];
  /** Reason with which registrations are rejected; unset to accept them. */
  refusal: string | undefined;
  readonly #directory: string;
  readonly #endpoints = new Map<string, Endpoint>();
  #server: Server | undefined;

  constructor(kubeletDir: string) {
    this.#directory = join(kubeletDir, "device-plugins");
  }

  /** Starts like kubelet, which first deletes all sockets. */
  async start(): Promise<void> {
    mkdirSync(this.#directory, { recursive: true });
    for (const name of readdirSync(this.#directory)) rmSync(join(this.#directory, name));
    const server = new Server();
    server.addService(services.Registration.service, {
      Register: (call: ServerUnaryCall<Registration, object>, answer: sendUnaryData<object>) => {
        this.#register(call.request, answer);
      },
    });
    const { promise, resolve, reject } = Promise.withResolvers<undefined>();
    const address = `unix:${join(this.#directory, "kubelet.sock")}`;
    server.bindAsync(address, ServerCredentials.createInsecure(), (error) => {
      if (error === null) resolve(undefined);
      else reject(error);
    });
    await promise;
    this.#server = server;
  }

  /** Stops like a kubelet that dies: connections end, plugins' sockets remain. */
  stop(): void {
    for (const endpoint of this.#endpoints.values()) endpoint.close();
    this.#endpoints.clear();
    this.#server?.forceShutdown();
    this.#server = undefined;
  }

  /** Returns the number of healthy devices of a resource; undefined if no running plugin offers it. */
  allocatable(resource: string): number | undefined {
    const endpoint = this.#endpoints.get(resource);
    if (endpoint?.isOpen !== true) return undefined;
    return endpoint.devices.filter(({ health }) => health === "Healthy").length;
  }

  /** Returns the number of all devices of a resource; undefined if no running plugin offers it. */
  capacity(resource: string): number | undefined {
    const endpoint = this.#endpoints.get(resource);
    return endpoint?.isOpen === true ? endpoint.devices.length : undefined;
  }

  /** Allocates devices for containers that request `counts` each. */
  async allocate(resource: string, counts: readonly number[]): Promise<readonly Allocation[]> {
    const free = this.#endpointOf(resource).devices.map(({ ID }) => ID);
    const containerRequests = counts.map((count) => ({ devicesIds: free.splice(0, count) }));
    return await this.allocateIds(resource, containerRequests);
  }

  /** Allocates the given devices. */
  async allocateIds(
    resource: string,
    containerRequests: readonly { readonly devicesIds: readonly string[] }[],
  ): Promise<readonly Allocation[]> {
    type Answer = { readonly containerResponses: readonly Allocation[] };
    const endpoint = this.#endpointOf(resource);
    const { containerResponses } = await endpoint.call<Answer>("Allocate", { containerRequests });
    if (containerResponses.length !== containerRequests.length) {
      this.faults.push("not one answer for each container");
    }
    for (const { devices, mounts } of containerResponses) {
      for (const device of devices) this.#check(device);
      for (const mount of mounts) this.#checkPaths(mount);
    }
    return containerResponses;
  }

  call(resource: string, method: string, request: object): Promise<unknown> {
    return this.#endpointOf(resource).call(method, request);
  }

  #endpointOf(resource: string): Endpoint {
    const endpoint = this.#endpoints.get(resource);
    if (endpoint === undefined) throw new Error(`nobody offers ${resource}`);
    return endpoint;
  }

  #register(registration: Registration, answer: sendUnaryData<object>): void {
    this.registrations.push(registration);
    const fault = this.refusal ?? this.#faultOf(registration);
    if (fault !== undefined) {
      if (this.refusal === undefined) this.faults.push(fault);
      answer({ code: status.INVALID_ARGUMENT, details: fault });
      return;
    }
    answer(null, {});
    const { resourceName, endpoint } = registration;
    this.#endpoints.get(resourceName)?.close();
    const plugin = new Endpoint(registration, join(this.#directory, endpoint));
    this.#endpoints.set(resourceName, plugin);
    this.#begin(plugin).catch((error: unknown) => {
      this.faults.push(String(error));
    });
  }

  #faultOf({ version, endpoint, resourceName }: Registration): string | undefined {
    if (version !== "v1beta1") return `version ${version}`;
    if (!/^[a-z0-9.-]+\.[a-z0-9-]+\/[a-z0-9.-]+$/.test(resourceName)) return `name ${resourceName}`;
    if (endpoint === "" || endpoint.includes("/")) return `endpoint ${endpoint}`;
    if (!existsSync(join(this.#directory, endpoint))) return `${endpoint} is not there yet`;
    return undefined;
  }

  async #begin(plugin: Endpoint): Promise<void> {
    const options = await plugin.call<Options>("GetDevicePluginOptions", {});
    const { options: registered } = plugin.registration;
    if (JSON.stringify(options) !== JSON.stringify(registered)) {
      this.faults.push("other options than were registered");
    }
    plugin.watch((devices) => {
      this.#checkList(devices);
    });
  }

  #checkList(devices: readonly Device[]): void {
    const ids = devices.map(({ ID }) => ID);
    if (new Set(ids).size !== ids.length) this.faults.push("a device twice");
    if (ids.some((id) => id === "" || id.length > 63)) this.faults.push("an id too long or empty");
    const healths = devices.filter(({ health }) => !["Healthy", "Unhealthy"].includes(health));
    if (healths.length > 0) this.faults.push(`health ${healths[0]?.health ?? ""}`);
  }

  #checkPaths({ containerPath, hostPath }: { containerPath: string; hostPath: string }): void {
    if (!containerPath.startsWith("/") || !hostPath.startsWith("/")) this.faults.push("no path");
  }

  #check({ permissions, ...paths }: Allocation["devices"][number]): void {
    this.#checkPaths(paths);
    if (!/^[rwm]{1,3}$/.test(permissions)) this.faults.push(`permissions ${permissions}`);
  }
}
