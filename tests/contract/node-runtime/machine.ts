// SPDX-License-Identifier: Apache-2.0
// The program node-runtime with a real API server, and what it may leave on the machine.
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import {
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
import type { Pod } from "@patchbay/api";
import { eventually } from "@patchbay/testing";
import { startHarness, type Harness } from "../apiserver/harness.ts";
import { makeGuestImage } from "../guest-image.ts";

export const PODS = "/api/v1/namespaces/default/pods";
export const NODE = "node-1";
const CONTAINER = "containers/compute";
const LIBEXEC = join(import.meta.dirname, "../../../packages/node-runtime/libexec");

/** A pod as virt-controller makes it. */
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
          image: "virt-launcher",
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
        { name: "kernel-boot", image: { reference: "guest" } },
      ],
      ...change,
    },
  };
}

/** One machine with an API server of its own. */
export class RuntimeMachine {
  readonly directory = mkdtempSync(join(tmpdir(), "patchbay-runtime-"));
  readonly bridge = `pbr${String(process.pid % 100_000)}`;
  api: Harness;
  #runtime: ChildProcess | undefined;
  readonly #uids: string[] = [];

  private constructor(api: Harness) {
    this.api = api;
  }

  static async start(): Promise<RuntimeMachine> {
    const machine = new RuntimeMachine(await startHarness());
    mkdirSync(join(machine.directory, "cni"));
    writeFileSync(join(machine.directory, "cni/10-default.conflist"), machine.#defaultNetwork());
    writeFileSync(join(machine.directory, "kubeconfig"), machine.api.kubeconfig);
    await machine.startRuntime();
    return machine;
  }

  path(...parts: readonly string[]): string {
    return join(this.directory, ...parts);
  }

  addGuestImage(): void {
    execFileSync("cp", ["-r", makeGuestImage(), this.path("images/guest")]);
  }

  async startRuntime(): Promise<void> {
    const main = join(import.meta.dirname, "../../../packages/node-runtime/src/main.ts");
    const child = spawn(
      process.execPath,
      [
        ...["--conditions=@patchbay/source", main, "--node-name", NODE],
        ...["--kubeconfig", this.path("kubeconfig"), "--pods-dir", this.path("pods")],
        ...["--images-dir", this.path("images"), "--state-dir", this.path("node-runtime")],
        ...["--binder-kubeconfig", this.path("kubeconfig")],
        ...["--cni-conf-dir", this.path("cni"), "--cni-bin-dir", "/usr/lib/cni"],
        ...["--log-level", process.env["RUNTIME_LOG_LEVEL"] ?? "error"],
      ],
      { stdio: ["ignore", "pipe", "inherit"] },
    );
    this.#runtime = child;
    await once(child.stdout, "data");
  }

  async stopRuntime(signal: NodeJS.Signals): Promise<number | null> {
    const child = this.#runtime;
    this.#runtime = undefined;
    if (child === undefined) return null;
    const exit = once(child, "exit");
    child.kill(signal);
    await exit;
    return child.exitCode;
  }

  /** Makes a pod. */
  async create(pod: object): Promise<void> {
    this.#uids.push((await this.api.post(PODS, pod)).body.metadata.uid);
  }

  async pod(name: string): Promise<Pod | undefined> {
    const answer = await this.api.ask("GET", `${PODS}/${name}`);
    // A pod of the API server, or a Status of code 404.
    return answer.code === 200 ? (answer.body as unknown as Pod) : undefined;
  }

  /** The pod, once it is in that phase. */
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

  virsh(uid: string, ...args: readonly string[]): string {
    // A socket's path has at most 107 characters, so a short one leads there.
    const short = this.path(uid.slice(0, 8));
    const volume = this.path("pods", uid, "volumes/kubernetes.io~empty-dir/launcher");
    if (!existsSync(short)) symlinkSync(volume, short);
    const uri = `qemu:///session?socket=${short}/libvirt/libvirt-sock`;
    return execFileSync("virsh", ["-q", "-c", uri, ...args], { encoding: "utf8", stdio: "pipe" });
  }

  /** Host pid that one of the files `shim` and `pid` of a container names. */
  processOf(uid: string, file: "pid" | "shim"): number {
    return Number(
      readFileSync(this.path("node-runtime/pods", uid, CONTAINER, file), "utf8").split(" ")[0],
    );
  }

  /** What a reboot does to a pod: its processes and namespace are gone, its files are of an earlier boot. */
  reboot(uid: string): void {
    const bootId = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
    execFileSync(join(LIBEXEC, "pod-cgroup"), ["remove", `${uid}.compute`]);
    execFileSync("ip", ["netns", "del", `patchbay-${uid}`]);
    const state = this.path("node-runtime/pods", uid);
    rmSync(join(state, CONTAINER, "exit"), { force: true });
    for (const file of ["record.json", `${CONTAINER}/shim`, `${CONTAINER}/pid`]) {
      const text = readFileSync(join(state, file), "utf8");
      writeFileSync(join(state, file), text.replace(bootId, "an-earlier-boot"));
    }
  }

  /** What is left of pods on the machine, as names. */
  remains(): readonly string[] {
    const list = (path: string): readonly string[] => (existsSync(path) ? readdirSync(path) : []);
    const leases = list(this.path("leases", "default")).filter((name) => /^\d+\./.test(name));
    const isOurs = (name: string): boolean => this.#uids.some((uid) => name.includes(uid));
    return [
      ...list("/run/netns").filter(isOurs),
      ...list(this.path("pods")),
      ...list(this.path("node-runtime/pods")),
      ...leases,
      ...list("/sys/fs/cgroup/memory/patchbay").filter(isOurs),
      ...list("/sys/fs/cgroup/patchbay").filter(isOurs),
    ];
  }

  /** Ends every pod by removing its object; the runtime runs afterwards, and there is no image of a guest. */
  async clear(): Promise<void> {
    const list = await this.api.get(PODS);
    for (const pod of list.body.items) {
      await this.api.delete(`${PODS}/${pod.metadata.name}?gracePeriodSeconds=0`);
    }
    if (this.#runtime === undefined) await this.startRuntime();
    await eventually(() => this.remains().length === 0, { withinMs: 30_000 });
    rmSync(this.path("images/guest"), { recursive: true, force: true });
  }

  async close(): Promise<void> {
    try {
      await this.clear();
    } finally {
      await this.stopRuntime("SIGTERM");
      await this.api.close();
      this.#removeFiles();
    }
  }

  #removeFiles(): void {
    try {
      execFileSync("ip", ["link", "del", this.bridge], { stdio: "pipe" });
    } catch {
      // No pod was made.
    }
    rmSync(this.directory, { recursive: true });
  }

  #defaultNetwork(): string {
    const ipam = {
      type: "host-local",
      dataDir: this.path("leases"),
      ranges: [[{ subnet: "10.253.77.0/24" }]],
    };
    const plugins = [{ type: "bridge", bridge: this.bridge, isGateway: true, ipam }];
    return JSON.stringify({ cniVersion: "1.0.0", name: "default", plugins });
  }
}
