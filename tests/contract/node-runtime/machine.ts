// SPDX-License-Identifier: Apache-2.0
// The program node-runtime with a real API server and a real containerd, and its leftovers on the machine.
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import {
  createWriteStream,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { customResourceDefinitions, names } from "@patchbay/api";
import type { Container, Pod } from "@patchbay/api/kubernetes";
import {
  archiveDirectory,
  fullReference,
  importImage,
  removeContainerdLeftovers,
  removeCgroups,
  removeImage,
} from "@patchbay/containerd";
import { createContainerRuntime } from "@patchbay/cri";
import {
  createClock,
  createFiles,
  createProcessRunner,
  killAndWait,
  readBootId,
} from "@patchbay/os";
import type { ContainerRuntime, ContainerStatus } from "@patchbay/core/interfaces";
import { eventually, executableOf } from "@patchbay/support";
import { startHarness, type Harness } from "../apiserver/harness.ts";
import type { ContainerdBench } from "../containerd/bench.ts";
import { startLauncherContainerd } from "../containerd/launcher-images.ts";
import { makeGuestImage } from "../guest-image.ts";

export const PODS = "/api/v1/namespaces/default/pods";
export const NODE = "node-1";
export const GUEST = "guest";
/**
 * Time after which a slow end of a pod is explained, milliseconds; on an idle machine it takes less than one second.
 */
const SLOW_MS = 20_000;
const LINES = 40;
const clock = createClock();
const files = createFiles();
const runner = createProcessRunner();

/** A pod similar to virt-controller's. */
export function launcherPod(name: string, change: Partial<Pod["spec"]> = {}): object {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name },
    spec: {
      restartPolicy: "Never",
      terminationGracePeriodSeconds: 25,
      securityContext: { runAsUser: 107, runAsGroup: 107, fsGroup: 107 },
      containers: [
        {
          name: "compute",
          image: names.LAUNCHER_IMAGE,
          imagePullPolicy: "IfNotPresent",
          env: [{ name: "SHUTDOWN_SECONDS", value: "20" }],
          resources: { limits: { memory: "512Mi", "devices.kubevirt.io/tun": "1" } },
          volumeMounts: [
            { name: "launcher", mountPath: "/run/launcher" },
            { name: "kernel-boot", mountPath: "/run/kernel-boot", readOnly: true },
          ],
        },
      ],
      volumes: [
        { name: "launcher", emptyDir: {} },
        { name: "kernel-boot", image: { reference: GUEST, pullPolicy: "Never" } },
      ],
      ...change,
    },
  };
}

/** A container that runs a shell script in the launcher image. */
export function shellContainer(script: string): Container {
  return {
    name: "compute",
    image: names.LAUNCHER_IMAGE,
    imagePullPolicy: "IfNotPresent",
    command: ["/bin/sh", "-c", script],
  };
}

export function shellPod(name: string, script: string, change: Partial<Pod["spec"]> = {}): object {
  return launcherPod(name, { containers: [shellContainer(script)], volumes: [], ...change });
}

function namesIn(path: string): readonly string[] {
  return existsSync(path) ? readdirSync(path) : [];
}

/** Loop devices over files below the directory. */
function loopsBelow(directory: string): readonly string[] {
  const argv = ["--list", "--noheadings", "--raw", "--output", "NAME,BACK-FILE"];
  const lines = execFileSync("losetup", argv, { encoding: "utf8" }).split("\n");
  return lines.filter((line) => line.includes(`${directory}/`));
}

function lastLinesOf(path: string, wanted: RegExp): string {
  const lines = readFileSync(path, "utf8").split("\n");
  return lines
    .filter((line) => wanted.test(line))
    .slice(-LINES)
    .join("\n");
}

/** Stacks of pending CRI calls: on SIGUSR1 containerd prints all stacks to its log and to a file. */
async function stacksOf({ pid }: { readonly pid: number }, directory: string): Promise<string> {
  const log = join(directory, "log");
  const begin = readFileSync(log).length;
  process.kill(pid, "SIGUSR1");
  const text = await eventually(
    () => {
      const added = readFileSync(log).subarray(begin).toString();
      return added.includes("END goroutine stack dump") && added;
    },
    { withinMs: 1000 },
  ).catch(String);
  rmSync(join(tmpdir(), `containerd.${String(pid)}.stacks.log`), { force: true });
  const stacks = text
    .split(/\\n\\n|\n\n/)
    .filter((one) => /criService\)\.(StopC|StopP|Remove|RunP)/.test(one));
  return stacks.join("\n").replaceAll("\\n", "\n").replaceAll("\\t", "  ");
}

/** One machine with its own API server and containerd. */
export class RuntimeMachine {
  readonly directory = mkdtempSync(join(tmpdir(), "pb-rt-"));
  readonly bridge: string;
  readonly gateway: string;
  readonly api: Harness;
  readonly containerd: ContainerdBench;
  readonly runtime: ContainerRuntime;
  #program: ChildProcess | undefined;

  private constructor(api: Harness, at: Network & { containerd: ContainerdBench }) {
    this.api = api;
    this.containerd = at.containerd;
    this.bridge = at.bridge;
    this.gateway = at.gateway;
    const endpoints = [at.containerd.endpoint];
    this.runtime = createContainerRuntime({ endpoints, clock });
  }

  static async start(): Promise<RuntimeMachine> {
    const network = ownNetwork();
    const leases = mkdtempSync(join(tmpdir(), "pb-rt-leases-"));
    const containerd = await startLauncherContainerd({
      network: configurationOf(network, leases),
    });
    const machine = new RuntimeMachine(await startHarness(), { ...network, containerd });
    machine.#leases = leases;
    writeFileSync(machine.path("kubeconfig"), machine.api.kubeconfig);
    await machine.startRuntime();
    return machine;
  }

  #leases = "";
  #hasGuestImage = false;

  /** Process id of node-runtime. */
  get runtimePid(): number {
    return this.#program?.pid ?? 0;
  }

  path(...parts: readonly string[]): string {
    return join(this.directory, ...parts);
  }

  /** Installs Patchbay's kinds. node-runtime reads the tenant policy if an image is on a registry of the machine. */
  async installKinds(): Promise<void> {
    for (const definition of customResourceDefinitions()) {
      await this.api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition);
    }
    const path = "/apis/kubevirt.io/v1/kubevirts";
    await eventually(async () => (await this.api.get(path)).code === 200, { withinMs: 30_000 });
  }

  /** The large image stays until it is removed or the machine ends. */
  async addGuestImage(): Promise<void> {
    if (this.#hasGuestImage) return;
    await this.#addImage(GUEST, makeGuestImage());
    this.#hasGuestImage = true;
  }

  /** Adds an image with a disk until the machine ends. */
  async addDiskImage(name: string, disk: Buffer): Promise<void> {
    const source = this.path("disk-image");
    mkdirSync(join(source, "disk"), { recursive: true });
    writeFileSync(join(source, "disk", "disk.img"), disk);
    await this.#addImage(name, source);
    rmSync(source, { recursive: true });
  }

  async #addImage(id: string, source: string): Promise<void> {
    const { layout } = this.containerd;
    const workDirectory = this.path("image-work");
    const architecture = process.arch === "arm64" ? "arm64" : "amd64";
    const archive = await archiveDirectory(
      { files, runner },
      { source, workDirectory, architecture },
    );
    await importImage({ clock, files, runner, layout }, { archive, id }, fullReference(id));
    rmSync(workDirectory, { recursive: true });
  }

  async removeGuestImage(): Promise<void> {
    await removeImage({ runner, layout: this.containerd.layout }, fullReference(GUEST));
    this.#hasGuestImage = false;
  }

  async startRuntime(): Promise<void> {
    const { layout, endpoint, cgroupParent } = this.containerd;
    const child = spawn(
      executableOf("node-runtime"),
      [
        "--node-name",
        NODE,
        "--kubeconfig",
        this.path("kubeconfig"),
        "--pods-dir",
        this.path("pods"),
        "--cri-endpoint",
        endpoint,
        "--containerd-dir",
        layout.directory,
        "--state-dir",
        this.path("state"),
        "--log-dir",
        this.path("logs"),
        "--cgroup-parent",
        cgroupParent,
        "--cni-conf-dir",
        layout.cniConfDirectory,
        "--binder-kubeconfig",
        this.path("kubeconfig"),
        "--claims-dir",
        this.path("claims"),
        "--log-level",
        "info",
      ],
      { stdio: ["ignore", "pipe", "pipe"] },
    );
    child.stderr.pipe(createWriteStream(this.path("runtime.log"), { flags: "a" }));
    this.#program = child;
    await once(child.stdout, "data");
  }

  async stopRuntime(signal: NodeJS.Signals): Promise<number | null> {
    const child = this.#program;
    this.#program = undefined;
    if (child === undefined) return null;
    const exit = once(child, "exit");
    child.kill(signal);
    await exit;
    return child.exitCode;
  }

  async create(pod: object): Promise<void> {
    await this.api.post(PODS, pod);
  }

  async pod(name: string): Promise<Pod | undefined> {
    const answer = await this.api.ask("GET", `${PODS}/${name}`);
    // A pod of the API server, or a Status of code 404.
    return answer.code === 200 ? (answer.body as unknown as Pod) : undefined;
  }

  /** All pods of the namespace. */
  async pods(): Promise<readonly Pod[]> {
    const { body } = await this.api.get(PODS);
    return body.items as unknown as readonly Pod[];
  }

  async inPhase(name: string, phase: string): Promise<Pod> {
    return eventually(
      async () => {
        const pod = await this.pod(name);
        if (pod?.status?.phase === phase) return pod;
        throw new Error(JSON.stringify(pod?.status));
      },
      { withinMs: 30_000 },
    );
  }

  async isGone(name: string): Promise<boolean> {
    return eventually(async () => (await this.pod(name)) === undefined, { withinMs: 40_000 });
  }

  /** The container of the newest pod. */
  async container(uid: string): Promise<ContainerStatus> {
    const labels = { "io.kubernetes.pod.uid": uid };
    const found = await this.runtime.listContainers({ labels });
    const [last] = [...found].sort((one, other) => other.attempt - one.attempt);
    const status = await this.runtime.findContainer(last?.id ?? "");
    if (status === undefined) throw new Error(`pod ${uid} has no container`);
    return status;
  }

  virsh(uid: string, ...args: readonly string[]): string {
    // A socket path has at most 107 characters, so a short one links to it.
    const short = this.path(uid.slice(0, 8));
    const volume = this.path("pods", uid, "volumes/kubernetes.io~empty-dir/launcher");
    if (!existsSync(short)) symlinkSync(volume, short);
    const uri = `qemu:///session?socket=${short}/libvirt/libvirt-sock`;
    return execFileSync("virsh", ["-q", "-c", uri, ...args], { encoding: "utf8", stdio: "pipe" });
  }

  /** Simulates a reboot: processes, mounts and memory are lost, images and disks stay. */
  async reboot(): Promise<void> {
    await this.containerd.end("SIGKILL");
    const bootId = await readBootId(files);
    const { layout } = this.containerd;
    await removeContainerdLeftovers({ files, runner, layout, kill: killAndWait, bootId });
    await removeCgroups({ files, runner }, this.containerd.cgroupParent);
    await files.ensureDirectory(layout.state, 0o711);
    await files.ensureDirectory(layout.runDirectory, 0o700);
    await this.containerd.start();
  }

  /** Names of pod leftovers on the machine. */
  async remains(): Promise<readonly string[]> {
    const leases = namesIn(join(this.#leases, "default")).filter((name) => /^\d+\./.test(name));
    const mounts = readFileSync("/proc/self/mounts", "utf8").split("\n");
    const groups = namesIn(join("/sys/fs/cgroup/memory", this.containerd.cgroupParent));
    const unified = namesIn(join("/sys/fs/cgroup", this.containerd.cgroupParent));
    return [
      ...(await this.runtime.listSandboxes()).map(({ id, state }) => `sandbox ${id} ${state}`),
      ...(await this.runtime.listContainers()).map(({ id, state }) => `container ${id} ${state}`),
      ...(await this.containerd.listShims()).map((pid) => `shim ${String(pid)}`),
      ...namesIn(this.path("pods")),
      ...namesIn(this.path("logs")),
      ...leases,
      ...mounts.filter((line) => line.includes(this.directory)),
      ...loopsBelow(this.directory),
      ...[...groups, ...unified].filter((name) => /^[0-9a-f]{64}$/.test(name)),
    ];
  }

  /** Ends every pod by deleting its object; the runtime runs afterwards. */
  async clear(): Promise<void> {
    await this.containerd.start();
    for (const pod of await this.pods()) {
      await this.api.delete(`${PODS}/${pod.metadata.name}?gracePeriodSeconds=0`);
    }
    if (this.#program === undefined) await this.startRuntime();
    await this.nothingRemains(30_000);
  }

  /** Resolves when no pod leftovers remain. Explains once why it takes long. */
  async nothingRemains(withinMs: number): Promise<void> {
    const slow = setTimeout(() => void this.#explainWait(), SLOW_MS);
    try {
      await eventually(
        async () => {
          // Listing all processes takes longer than the end of a pod, so directories are checked first.
          const pods = namesIn(this.path("pods"));
          const remaining = pods.length > 0 ? pods : await this.remains();
          if (remaining.length > 0) throw new Error(remaining.join("\n"));
          return true;
        },
        { withinMs },
      );
    } finally {
      clearTimeout(slow);
    }
  }

  /** Prints pod leftovers, the last lines of both logs, and the state of containerd's calls. */
  async #explainWait(): Promise<void> {
    const { layout, process: containerd } = this.containerd;
    const remains = await this.remains().catch((error: unknown) => [String(error)]);
    const stacks = containerd === undefined ? "" : await stacksOf(containerd, layout.directory);
    console.error(
      [
        "A pod takes long to end. What remains:",
        ...remains,
        "Last lines of node-runtime:",
        lastLinesOf(this.path("runtime.log"), /./),
        "Last warnings of containerd:",
        lastLinesOf(join(layout.directory, "log"), /level=[we]/),
        "Calls in containerd:",
        stacks,
      ].join("\n"),
    );
  }

  async close(): Promise<void> {
    try {
      await this.clear();
    } finally {
      await this.stopRuntime("SIGTERM");
      this.runtime.close();
      await this.containerd.close();
      await this.api.close();
      this.#removeFiles();
    }
  }

  #removeFiles(): void {
    try {
      execFileSync("ip", ["link", "del", this.bridge], { stdio: "pipe" });
    } catch {
      // No pod was created.
    }
    rmSync(this.directory, { recursive: true });
    rmSync(this.#leases, { recursive: true });
  }
}

interface Network {
  readonly bridge: string;
  readonly gateway: string;
}

/**
 * Parallel machines are separate processes: each has its own subnet, because replies would otherwise use another's
 * bridge.
 */
function ownNetwork(): Network {
  const { pid } = process;
  const subnet = `10.${String(224 + (Math.floor(pid / 256) % 16))}.${String(pid % 256)}`;
  return { bridge: `pbr${String(pid % 100_000)}`, gateway: `${subnet}.1` };
}

function configurationOf({ bridge, gateway }: Network, dataDir: string): string {
  const subnet = gateway.replace(/(?<!\d)\d+$/, "0/24");
  const ipam = { type: "host-local", dataDir, ranges: [[{ subnet, gateway }]] };
  const plugins = [{ type: "bridge", bridge, isGateway: true, ipam }];
  return JSON.stringify({ cniVersion: "1.0.0", name: "default", plugins });
}
