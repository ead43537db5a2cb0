// SPDX-License-Identifier: Apache-2.0
// A net-agent with its role's rights, an API server, sandboxes and the real plugins, all in this process.
import { mkdirSync, writeFileSync } from "node:fs";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { names, NETWORK_ATTACHMENT_DEFINITIONS, PODS } from "@patchbay/api";
import {
  parseNetworkStatus,
  parseAttachmentErrors,
  type NetworkStatus,
  type AttachmentErrors,
} from "@patchbay/api/annotations";
import type { KubeObject, Pod } from "@patchbay/api/kubernetes";
import { DaemonHealth } from "@patchbay/daemon/testing";
import { FakeCriSandboxes } from "@patchbay/cri/testing";
import type { KubeClient } from "@patchbay/kube";
import type { NetworkConfigList, Sandbox } from "@patchbay/core/interfaces";
import {
  CUSTOM_RESOURCE_DEFINITIONS,
  startTestServer,
  type TestServer,
} from "@patchbay/support/api-server";
import { createMetrics } from "@patchbay/telemetry";
import { runAgent } from "../../../packages/control-plane/net-agent/src/compose.ts";
import { parseFlags, type Flags } from "../../../packages/control-plane/net-agent/src/config.ts";
import { CniNode } from "../cni/node.ts";

const NODE = "node-1";
const ACCOUNT = "system:serviceaccount:patchbay:net-agent";
const NAMESPACES = {
  group: "",
  version: "v1",
  resource: "namespaces",
  kind: "Namespace",
  namespaced: false,
};

const NETWORKS_KIND = { name: "network-attachment-definitions.k8s.cni.cncf.io" };

/** Accepts networks of any length, like the kind that Multus installs. */
export async function unlimitNetworks({ store }: KubeClient): Promise<void> {
  const kind = await store.find(CUSTOM_RESOURCE_DEFINITIONS, NETWORKS_KIND);
  const text = JSON.stringify(kind).replaceAll(/,"maxLength":\d+/g, "");
  await store.update(CUSTOM_RESOURCE_DEFINITIONS, JSON.parse(text) as KubeObject);
}

export interface PodRequest {
  readonly namespace: string;
  readonly name: string;
  /** Text of the networks annotation. */
  readonly networks: string;
  /** Resources that its container requests. */
  readonly limits?: Readonly<Record<string, string>>;
  readonly metadata?: Partial<Pod["metadata"]>;
  /** Unset: one container that requests `limits`. */
  readonly containers?: Pod["spec"]["containers"];
  /** Runs in the sandbox before the pod, like its runtime; returns more annotations. */
  readonly prepare?: (sandbox: Sandbox) => Promise<Readonly<Record<string, string>>>;
}

interface AgentFlags {
  readonly hostProcess?: number | undefined;
  /** Prefix of the names of sandboxes and links. */
  readonly namePrefix?: string;
  /** Unset: the policy is enforced. */
  readonly tenantPolicyMode?: Flags["tenantPolicyMode"];
}

/** Close it at the end. */
export class AgentMachine implements AsyncDisposable {
  readonly node: CniNode;
  readonly #server: TestServer;
  readonly #runtime: FakeCriSandboxes;
  readonly admin: KubeClient;
  readonly #stop = new AbortController();
  readonly #metrics = createMetrics("net-agent");
  #running: Promise<void> = Promise.resolve();

  private constructor(
    parts: { readonly server: TestServer; readonly runtime: FakeCriSandboxes },
    admin: KubeClient,
    node: CniNode,
  ) {
    this.#server = parts.server;
    this.#runtime = parts.runtime;
    this.admin = admin;
    this.node = node;
  }

  /**
   * Starts everything; resolves when the agent is active. `prepare` runs before the agent starts. `hostProcess`: a
   * process in the host's network namespace; unset: this one.
   */
  static async start(
    prepare: (admin: KubeClient) => Promise<void> = () => Promise.resolve(),
    flags: AgentFlags = {},
  ): Promise<AgentMachine> {
    const server = await startTestServer();
    const admin = await server.client("kubernetes-admin", ["system:masters"]);
    await prepare(admin);
    const runtime = await FakeCriSandboxes.start();
    const node = new CniNode(flags.namePrefix);
    const machine = new AgentMachine({ server, runtime }, admin, node);
    await machine.#startAgent(flags);
    return machine;
  }

  async addNamespace(name: string): Promise<void> {
    const namespace = { apiVersion: "v1", kind: "Namespace", metadata: { name } };
    await this.admin.store.create(NAMESPACES, namespace);
  }

  /** A file in the node's directory of definitions. */
  putDefinitionFile(name: string, text: string): void {
    mkdirSync(this.#definitionDir, { recursive: true });
    writeFileSync(join(this.#definitionDir, name), text);
  }

  /** A network from a list of plugins or from a configuration text. */
  async putNad(
    namespace: string,
    name: string,
    config: NetworkConfigList["plugins"] | string,
  ): Promise<void> {
    const text =
      typeof config === "string"
        ? config
        : JSON.stringify({ cniVersion: "1.0.0", plugins: config });
    const { kind } = NETWORK_ATTACHMENT_DEFINITIONS;
    await this.admin.store.create(NETWORK_ATTACHMENT_DEFINITIONS, {
      apiVersion: "k8s.cni.cncf.io/v1",
      kind,
      metadata: { namespace, name },
      spec: { config: text },
    });
  }

  /** Creates a running pod with its own sandbox. */
  async runPod(request: PodRequest): Promise<Sandbox> {
    const { namespace, name, networks, limits = {}, metadata, prepare } = request;
    const annotations = { [names.NETWORKS_ANNOTATION]: networks };
    const { containers = [{ name: "c", image: "i:1", resources: { limits } }] } = request;
    const pod = await this.admin.store.create(PODS, {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { namespace, name, annotations, ...metadata },
      spec: { nodeName: NODE, containers },
    });
    const uid = pod.metadata.uid ?? "";
    const sandbox = this.node.addSandbox({ uid, namespace, name });
    this.#runtime.put(sandbox);
    const fields = {
      metadata: { annotations: { ...(await prepare?.(sandbox)) } },
      status: { phase: "Running" },
    };
    const patch = { type: "merge", fields } as const;
    await this.admin.store.patch(PODS, { namespace, name }, patch, { subresource: "status" });
    return sandbox;
  }

  /** Replaces a pod's sandbox, as after a reboot. `attach` creates NICs in the new one, like Multus, and returns its annotations. */
  async replaceSandbox(
    { namespace, name }: Pick<PodRequest, "namespace" | "name">,
    former: Sandbox,
    attach: (sandbox: Sandbox) => Readonly<Record<string, string>>,
  ): Promise<Sandbox> {
    this.node.dropSandbox(former);
    this.#runtime.take(former.podUid);
    const sandbox = this.node.addSandbox({ uid: former.podUid, namespace, name });
    const fields = { metadata: { annotations: attach(sandbox) }, status: { podIP: "10.244.0.8" } };
    this.#runtime.put(sandbox);
    const patch = { type: "merge", fields } as const;
    await this.admin.store.patch(PODS, { namespace, name }, patch, { subresource: "status" });
    return sandbox;
  }

  async ask(namespace: string, name: string, networks: string): Promise<void> {
    const fields = { metadata: { annotations: { [names.NETWORKS_ANNOTATION]: networks } } };
    await this.admin.store.patch(PODS, { namespace, name }, { type: "merge", fields });
  }

  printMetrics(): Promise<string> {
    return this.#metrics.print();
  }

  /** kubectl's output for an administrator. */
  async kubectl(...args: readonly string[]): Promise<string> {
    const path = join(this.node.directory, "kubeconfig");
    writeFileSync(path, await this.#server.kubeconfig("kubernetes-admin", ["system:masters"]));
    const { stdout } = await promisify(execFile)("kubectl", ["--kubeconfig", path, ...args]);
    return stdout;
  }

  async networkStatus(namespace: string, name: string): Promise<readonly NetworkStatus[]> {
    const pod = await this.admin.store.find(PODS, { namespace, name });
    return parseNetworkStatus(pod?.metadata.annotations?.[names.NETWORK_STATUS_ANNOTATION]);
  }

  /** Errors of the pod's failed attachments by NIC. */
  async errors(namespace: string, name: string): Promise<AttachmentErrors> {
    const pod = await this.admin.store.find(PODS, { namespace, name });
    return parseAttachmentErrors(pod?.metadata.annotations?.[names.ATTACHMENT_ERRORS_ANNOTATION]);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async close(): Promise<void> {
    this.#stop.abort(new Error("the test is over"));
    await this.#running;
    await this.#server.close();
    this.#runtime.close();
    this.node.close();
  }

  get #definitionDir(): string {
    return join(this.node.directory, "definitions");
  }

  /** Socket of the kubelet's pod resources. */
  get podResourcesSocket(): string {
    return join(this.node.directory, "kubelet.sock");
  }

  /** Directory of device files. */
  get deviceInfoDir(): string {
    return join(this.node.directory, "devinfo");
  }

  /** Directory where the pod's runtime stores attachments. */
  get cacheDir(): string {
    return join(this.node.directory, "cache");
  }

  /** Deletes the pod and its sandbox, as a runtime does. */
  async removePod(
    { namespace, name }: Pick<PodRequest, "namespace" | "name">,
    sandbox: Sandbox,
  ): Promise<void> {
    this.node.dropSandbox(sandbox);
    this.#runtime.take(sandbox.podUid);
    await this.admin.store.delete(PODS, { namespace, name }, { gracePeriodSeconds: 0 });
  }

  async #startAgent({ hostProcess, tenantPolicyMode = "enforce" }: AgentFlags): Promise<void> {
    const { promise: isReady, resolve } = Promise.withResolvers<undefined>();
    const { clock, log } = this.#server;
    const context = {
      client: await this.#server.client(ACCOUNT),
      clock,
      log,
      metrics: this.#metrics,
      drainSignal: this.#stop.signal,
      signal: this.#stop.signal,
      health: new DaemonHealth({ clock, log }),
      ready: () => {
        resolve(undefined);
      },
    };
    this.#running = runAgent(context, {
      ...parseFlags(["node", "net-agent", "--node-name", NODE, "--log-level", "error"]),
      ...(hostProcess !== undefined && { hostProcess }),
      tenantPolicyMode,
      criEndpoint: [this.#runtime.endpoint],
      stateDir: join(this.node.directory, "state"),
      cniBinDir: [this.node.binDir, "/usr/lib/cni"],
      cniCacheDir: [this.cacheDir],
      definitionDir: this.#definitionDir,
      podResourcesSocket: this.podResourcesSocket,
      deviceInfoDir: this.deviceInfoDir,
      // Directory of reserved addresses.
      tenantPolicy: { paths: [this.node.leaseDir] },
      // Ignores what the host's own Multus left.
      multusDir: join(this.node.directory, "multus"),
    });
    await Promise.race([isReady, this.#running]);
  }
}
