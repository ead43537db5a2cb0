// SPDX-License-Identifier: Apache-2.0
// Test kubelet that serves the devices of pods at a real socket.
import { mkdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import {
  loadPackageDefinition,
  Server,
  ServerCredentials,
  status,
  type sendUnaryData,
  type ServerUnaryCall,
  type ServiceClientConstructor,
} from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";

/** Pod with containers, and the devices of each by resource. */
export interface PodOfKubelet {
  readonly namespace: string;
  readonly name: string;
  readonly containers: readonly Readonly<Record<string, readonly string[]>>[];
}

type StatusName = keyof typeof status;

interface Name {
  readonly podName: string;
  readonly podNamespace: string;
}

const { PodResourcesLister } = loadPackageDefinition(
  loadSync(join(import.meta.dirname, "pod-resources.proto"), { defaults: true }),
)["v1"] as unknown as Record<"PodResourcesLister", ServiceClientConstructor>;

/** Builds a container with devices and the other fields that kubelet reports. */
function toContainer(devices: PodOfKubelet["containers"][number], index: number): object {
  return {
    name: `c${String(index)}`,
    cpuIds: [1, 2],
    memory: [{ memoryType: "memory", size: 1 }],
    devices: Object.entries(devices).map(([resourceName, deviceIds]) => {
      return { resourceName, deviceIds, topology: { nodes: [{ ID: 0 }] } };
    }),
  };
}

function toResources({ namespace, name, containers }: PodOfKubelet): object {
  return { name, namespace, containers: containers.map(toContainer) };
}

/** Serves at the absolute path of a socket until `close`. */
export class TestPodResources {
  readonly pods: PodOfKubelet[] = [];
  /** Methods that were called, in order. */
  readonly calls: string[] = [];
  /** Name of the status with which each method fails. */
  failures: { readonly Get?: StatusName; readonly List?: StatusName } = {};
  readonly #server = new Server();
  readonly #socket: string;
  readonly #hasGet: boolean;

  /** `hasGet` says whether the method for one pod is served, which kubelets before 1.34 do only if it is enabled. */
  constructor(socket: string, hasGet = true) {
    this.#socket = socket;
    this.#hasGet = hasGet;
  }

  async start(): Promise<void> {
    mkdirSync(dirname(this.#socket), { recursive: true });
    this.#server.addService(PodResourcesLister.service, {
      List: (_call: unknown, answer: sendUnaryData<object>) => {
        this.calls.push("List");
        const { List: failure } = this.failures;
        if (failure === undefined) answer(null, { podResources: this.pods.map(toResources) });
        else answer({ code: status[failure], details: "list failed" });
      },
      Get: ({ request }: ServerUnaryCall<Name, object>, answer: sendUnaryData<object>) => {
        this.calls.push("Get");
        const { Get: failure } = this.failures;
        if (failure === undefined) this.#get(request, answer);
        else answer({ code: status[failure], details: "get failed" });
      },
    });
    const { promise, resolve, reject } = Promise.withResolvers<undefined>();
    const credentials = ServerCredentials.createInsecure();
    this.#server.bindAsync(`unix:${this.#socket}`, credentials, (error) => {
      if (error === null) resolve(undefined);
      else reject(error);
    });
    await promise;
  }

  close(): void {
    this.#server.forceShutdown();
    rmSync(this.#socket, { force: true });
  }

  #get({ podName, podNamespace }: Name, answer: sendUnaryData<object>): void {
    const refuse = (details: string): void => {
      answer({ code: status.UNKNOWN, details });
    };
    if (!this.#hasGet) {
      refuse("PodResources API Get method disabled");
      return;
    }
    const pod = this.pods.find(({ namespace, name }) => {
      return namespace === podNamespace && name === podName;
    });
    if (pod === undefined) refuse(`pod ${podName} in namespace ${podNamespace} not found`);
    else answer(null, { podResources: toResources(pod) });
  }
}
