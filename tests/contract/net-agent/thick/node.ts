// SPDX-License-Identifier: Apache-2.0
// A node whose only CNI plugin is net-agent's: an API server, a containerd, and the program net-agent, which can be
// killed and restarted.
import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { names } from "@patchbay/api";
import { parseNetworkStatus, type NetworkStatus } from "@patchbay/api/annotations";
import { sandboxConfigFor } from "@patchbay/cri/testing";
import type { NetworkConfigList } from "@patchbay/core/interfaces";
import { eventually, executableOf, run } from "@patchbay/support";
import { startHarness, type Harness } from "../../apiserver/harness.ts";
import { CniNode } from "../../cni/node.ts";
import {
  startContainerdRuntime,
  type ContainerdRuntimeBench,
} from "../../cri/containerd-runtime.ts";
import { NAD_DEFINITION } from "../nad-definition.ts";

/** The compiled plugin. */
export const PLUGIN = join(
  import.meta.dirname,
  "../../../../packages/adapters/cni/build/patchbay-cni",
);
const NAMESPACE = "ns1";
const PODS = `/api/v1/namespaces/${NAMESPACE}/pods`;
const NADS = `/apis/k8s.cni.cncf.io/v1/namespaces/${NAMESPACE}/network-attachment-definitions`;
const TIMEOUT = { withinMs: 20_000 };
/** From which tenants' pods may have their own addresses. No other file uses it. */
export const RANGE = "10.63.0.0/24";

/** The node's state of pod networks. */
export interface Inventory {
  readonly links: readonly string[];
  readonly leases: readonly string[];
  readonly journal: readonly string[];
}

function filesBelow(directory: string): readonly string[] {
  if (!existsSync(directory)) return [];
  return readdirSync(directory, { recursive: true, encoding: "utf8" }).toSorted();
}

/** Close it at the end. */
export class ThickNode {
  readonly cni = new CniNode();
  readonly #api: Harness;
  runtime!: ContainerdRuntimeBench;
  #agent: ChildProcess | undefined;

  private constructor(api: Harness) {
    this.#api = api;
  }

  static async start(): Promise<ThickNode> {
    const node = new ThickNode(await startHarness());
    try {
      await node.#prepare();
      await node.startAgent();
    } catch (error) {
      await node.close();
      throw error;
    }
    return node;
  }

  get socketPath(): string {
    return join(this.cni.directory, "run", "cni.sock");
  }

  /** Socket of the kubelet's pod resources. */
  get podResourcesSocket(): string {
    return join(this.cni.directory, "kubelet.sock");
  }

  get #plugins(): string {
    return join(this.cni.directory, "runtime-bin");
  }

  get #configs(): string {
    return this.runtime.containerd.layout.cniConfDirectory;
  }

  /** A runtime without our plugin, which the agent installs; it runs the loopback plugin itself. */
  async #prepare(): Promise<void> {
    mkdirSync(this.#plugins, { recursive: true });
    symlinkSync("/usr/lib/cni/loopback", join(this.#plugins, "loopback"));
    this.writeDefaultNetwork();
    this.runtime = await startContainerdRuntime({ cniPlugins: this.#plugins });
    const namespace = { apiVersion: "v1", kind: "Namespace", metadata: { name: NAMESPACE } };
    await this.#api.post("/api/v1/namespaces", namespace);
    await this.#api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", NAD_DEFINITION);
    await eventually(async () => (await this.#api.get(NADS)).code === 200, TIMEOUT);
  }

  /** The default network of every pod; another name is another network. */
  writeDefaultNetwork(name = "everyone", more: Partial<NetworkConfigList> = {}): void {
    const network = { cniVersion: "1.0.0", name, plugins: [this.cni.bridgePlugin()], ...more };
    writeFileSync(join(this.cni.directory, "default.conflist"), JSON.stringify(network));
  }

  async startAgent(): Promise<void> {
    const { directory, binDir, leaseDir } = this.cni;
    writeFileSync(join(directory, "kubeconfig"), this.#api.kubeconfig);
    const child = spawn(
      executableOf("net-agent"),
      [
        "--node-name",
        "node-1",
        "--mode",
        "alone",
        "--kubeconfig",
        join(directory, "kubeconfig"),
        "--cri-endpoint",
        this.runtime.containerd.endpoint,
        "--state-dir",
        join(directory, "state"),
        "--cni-bin-dir",
        binDir,
        "--cni-bin-dir",
        "/usr/lib/cni",
        "--log-level",
        "error",
        "--tenant-paths",
        leaseDir,
        "--tenant-ranges",
        RANGE,
        "--cluster-networks",
        "10.244.0.0/16",
        "--cni-cache-dir",
        join(directory, "cache"),
        "--cni-socket",
        this.socketPath,
        "--install-plugin",
        this.#plugins,
        "--runtime-config-dir",
        this.#configs,
        "--own-pod",
        `${NAMESPACE}/agent`,
        "--default-network",
        join(directory, "default.conflist"),
        "--pod-resources-socket",
        this.podResourcesSocket,
        "--device-info-dir",
        join(directory, "devinfo"),
      ],
      { stdio: ["ignore", "pipe", "inherit"] },
    );
    this.#agent = child;
    await once(child.stdout, "data");
  }

  async killAgent(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    const child = this.#agent;
    this.#agent = undefined;
    if (child?.exitCode !== null) return;
    const exit = once(child, "exit");
    child.kill(signal);
    await exit;
  }

  /** Starts with an uninstall notice and ends. */
  async retireAgent(): Promise<void> {
    await this.makePod("agent", "");
    const annotations = { [names.UNINSTALL_PLUGIN_ANNOTATION]: "true" };
    await this.#api.patch(`${PODS}/agent`, { metadata: { annotations } });
    await this.startAgent();
    await this.killAgent("SIGTERM");
  }

  /** Our files in the runtime's directories. */
  installed(): readonly string[] {
    const names = [this.#plugins, this.#configs].flatMap((directory) => readdirSync(directory));
    return names.filter((name) => name.includes("patchbay"));
  }

  /** Kills and restarts it. */
  async restartAgent(): Promise<void> {
    await this.killAgent();
    await this.startAgent();
  }

  async putNad(
    name: string,
    plugins: NetworkConfigList["plugins"],
    annotations: Readonly<Record<string, string>> = {},
  ): Promise<void> {
    await this.#api.post(NADS, {
      apiVersion: "k8s.cni.cncf.io/v1",
      kind: "NetworkAttachmentDefinition",
      metadata: { name, annotations },
      spec: { config: JSON.stringify({ cniVersion: "1.0.0", plugins }) },
    });
  }

  /** Creates the pod without a sandbox; returns its uid. */
  async makePod(
    name: string,
    networks: string,
    annotations: Readonly<Record<string, string>> = {},
  ): Promise<string> {
    const { body } = await this.#api.post(PODS, {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name, annotations: { [names.NETWORKS_ANNOTATION]: networks, ...annotations } },
      spec: {
        nodeName: "node-1",
        containers: [{ name: "c", image: "i:1" }],
        terminationGracePeriodSeconds: 0,
      },
    });
    return body.metadata.uid;
  }

  /** Runs a sandbox like a kubelet. */
  runSandbox(name: string, uid: string, attempt = 0): Promise<string> {
    const config = sandboxConfigFor(this.runtime, name);
    const labels = { ...config.labels, "io.kubernetes.pod.uid": uid };
    const metadata = { name, namespace: NAMESPACE, uid, attempt };
    return this.runtime.runtime.runSandbox({ ...config, labels, metadata });
  }

  /** Calls our plugin for a pod's sandbox like a runtime; returns its error, if any. */
  async callPlugin(
    command: string,
    { name, uid, id }: { readonly name: string; readonly uid: string; readonly id: string },
    config: object = {},
  ): Promise<unknown> {
    const { netnsPath = "" } = (await this.runtime.runtime.findSandbox(id)) ?? {};
    const text = { cniVersion: "1.1.0", name: "patchbay", type: "patchbay-cni", ...config };
    const { stdout } = spawnSync(PLUGIN, {
      input: JSON.stringify({ ...text, socket: this.socketPath }),
      encoding: "utf8",
      timeout: 120_000,
      env: {
        CNI_COMMAND: command,
        CNI_CONTAINERID: id,
        CNI_IFNAME: "eth0",
        CNI_PATH: "/x",
        CNI_NETNS: netnsPath,
        CNI_ARGS: `K8S_POD_NAMESPACE=${NAMESPACE};K8S_POD_NAME=${name};K8S_POD_UID=${uid}`,
      },
    });
    return stdout === "" ? undefined : (JSON.parse(stdout) as unknown);
  }

  async removeSandbox(id: string): Promise<void> {
    await this.runtime.runtime.stopSandbox(id);
    await this.runtime.runtime.removeSandbox(id);
  }

  /** A kubelet's status of a pod with running containers. */
  async sayRunning(name: string): Promise<void> {
    await this.#api.patch(`${PODS}/${name}/status`, { status: { phase: "Running" } });
  }

  async ask(name: string, networks: string): Promise<void> {
    const annotations = { [names.NETWORKS_ANNOTATION]: networks };
    await this.#api.patch(`${PODS}/${name}`, { metadata: { annotations } });
  }

  async deletePod(name: string): Promise<void> {
    await this.#api.delete(`${PODS}/${name}?gracePeriodSeconds=0`);
  }

  async networkStatus(name: string): Promise<readonly NetworkStatus[]> {
    const { body } = await this.#api.get(`${PODS}/${name}`);
    return parseNetworkStatus(body.metadata.annotations?.[names.NETWORK_STATUS_ANNOTATION]);
  }

  /** The networks in the pod's status: `NETWORK NIC`, in order. */
  async told(name: string): Promise<readonly string[]> {
    const status = await this.networkStatus(name);
    return status.map((entry) => `${entry.name} ${entry.interface ?? ""}`);
  }

  async nics(id: string): Promise<readonly string[]> {
    const { netnsPath = "" } = (await this.runtime.runtime.findSandbox(id)) ?? {};
    const links = JSON.parse(run("nsenter", `--net=${netnsPath}`, "ip", "-j", "link")) as readonly {
      readonly ifname: string;
    }[];
    return links.flatMap(({ ifname }) => (ifname === "lo" ? [] : [ifname])).toSorted();
  }

  inventory(): Inventory {
    const journal = filesBelow(join(this.cni.directory, "state", "journal"));
    const leases = filesBelow(this.cni.leaseDir).filter((path) => /\/\d[^/]*$/.test(path));
    return { links: this.cni.bridgePorts(), leases, journal };
  }

  async close(): Promise<void> {
    await this.killAgent();
    await (this.runtime as ContainerdRuntimeBench | undefined)?.close();
    await this.#api.close();
    this.cni.close();
  }
}
