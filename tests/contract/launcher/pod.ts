// SPDX-License-Identifier: Apache-2.0
// A launcher in its own pod on a real containerd, with the rights that virt-controller gives it, and the guest image.
import { execFile } from "node:child_process";
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { rename } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { names } from "@patchbay/api";
import { createContainerRuntime } from "@patchbay/cri";
import { createClock } from "@patchbay/os";
import type { ContainerConfig, ContainerRuntime, SandboxConfig } from "@patchbay/core/interfaces";
import { eventually, KERNEL_ARGS, openGuestConsole, type GuestConsole } from "@patchbay/support";
import type { ContainerdBench } from "../containerd/bench.ts";
import { startLauncherContainerd } from "../containerd/launcher-images.ts";

const run = promisify(execFile);
const UID = names.LAUNCHER_UID;
const EXEC_SECONDS = 30;
const VOLUMES = [
  { name: "launcher", mountPath: names.LAUNCHER_DIR },
  { name: "tmp", mountPath: "/tmp" },
  { name: "state", mountPath: names.STATE_DIR },
] as const;
const NAMESPACES = { network: "POD", pid: "CONTAINER", ipc: "POD" } as const;

const DOMAIN = `<domain type='qemu'><name>vm</name><uuid>7d5b0c0e-3a53-4f0e-9d0a-2f6d3a6c1b11</uuid><memory unit='MiB'>128</memory><vcpu>1</vcpu>
  <os><type machine='q35'>hvm</type><kernel>/run/kernel-boot/vmlinuz</kernel>
    <initrd>/run/kernel-boot/initrd</initrd><cmdline>${KERNEL_ARGS}</cmdline></os>
  <features><acpi/></features>
  <devices><serial type='unix'><source mode='bind' path='/run/launcher/serial0.sock'/>
    <log file='/run/launcher/serial0.log' append='off'/></serial><memballoon model='none'/></devices></domain>`;

const AGENT = `<controller type='virtio-serial'/><channel type='unix'>
  <source mode='bind' path='/run/launcher/agent.sock'/>
  <target type='virtio' name='org.qemu.guest_agent.0'/></channel>`;

export interface LauncherChoice {
  /** The guest's time to shut down. */
  readonly graceSeconds?: number;
  /** More devices of the domain, as XML. */
  readonly devices?: string;
  /** Whether the guest has QEMU's agent and a channel for it. */
  readonly hasAgent?: boolean;
  /** An ended launcher whose guest state volume this one reuses. */
  readonly after?: LauncherPod;
}

export interface LauncherPod {
  /** The directory of its sockets and the console's log. */
  readonly volume: string;
  /** The guest's state beside its disks. */
  readonly state: string;
  /** Runs virsh against its libvirt from outside. */
  virsh(...args: readonly string[]): Promise<string>;
  start(kernel?: string): Promise<void>;
  boot(): Promise<GuestConsole>;
  /** Runs a program in its container, like a kubelet's probe. */
  exec(
    ...command: readonly string[]
  ): Promise<{ readonly exitCode: number; readonly stdout: string }>;
  /** Starts the container that prints the guest's console; returns its end. */
  startTail(): Promise<{ exitCode(withinMs: number): Promise<number> }>;
  /** Host pids of its processes with that name. */
  pids(name: string): readonly number[];
  /** libvirt's log of a guest, by the guest's name. */
  log(name: string): string;
  /** Sends SIGTERM, like a kubelet. */
  terminate(): Promise<void>;
  /** How the container ended. */
  exitCode(withinMs: number): Promise<number>;
  /** Ends everything and removes every trace. */
  remove(): Promise<void>;
}

export class LauncherBench {
  readonly #containerd: ContainerdBench;
  readonly #runtime: ContainerRuntime;
  readonly #paths: { readonly guestImage: string; readonly leases: string };
  #count = 0;

  private constructor(
    containerd: ContainerdBench,
    paths: { readonly guestImage: string; readonly leases: string },
  ) {
    this.#containerd = containerd;
    this.#paths = paths;
    const endpoints = [containerd.endpoint];
    this.#runtime = createContainerRuntime({ endpoints, clock: createClock() });
  }

  static async open(guestImage: string): Promise<LauncherBench> {
    const leases = mkdtempSync(join(tmpdir(), "launcher-leases-"));
    const containerd = await startLauncherContainerd({ network: networkOf(leases) });
    return new LauncherBench(containerd, { guestImage, leases });
  }

  async close(): Promise<void> {
    this.#runtime.close();
    await this.#containerd.close();
    rmSync(this.#paths.leases, { recursive: true });
  }

  async launch(choice: LauncherChoice = {}): Promise<LauncherPod> {
    this.#count += 1;
    const name = `l${String(this.#count)}`;
    const directory = join(this.#containerd.directory, name);
    makeVolumes(directory);
    if (choice.after !== undefined) await rename(choice.after.state, join(directory, "state"));
    const sandbox = sandboxOf(name, this.#containerd.cgroupParent);
    const runtime = this.#runtime;
    const sandboxId = await runtime.runSandbox(sandbox);
    const config = containerOf(directory, this.#paths.guestImage, choice.graceSeconds ?? 20);
    const id = await runtime.createContainer(sandboxId, config, sandbox);
    await runtime.startContainer(id);
    const { devices = "", hasAgent = false } = choice;
    const containerd = this.#containerd;
    const domain = hasAgent ? DOMAIN.replace("/initrd<", "/initrd-agent<") : DOMAIN;
    const all = `${devices}${hasAgent ? AGENT : ""}</devices>`;
    const tail = tailOf(config);
    const startTail = async (): Promise<string> => {
      const tailId = await runtime.createContainer(sandboxId, tail, sandbox);
      await runtime.startContainer(tailId);
      return tailId;
    };
    const parts = { runtime, sandboxId, id, directory, containerd, startTail };
    return openPod({ ...parts, domain: domain.replace("</devices>", all) });
  }
}

/** A link between the pod and the host, which is deleted with the pod. */
function networkOf(dataDir: string): string {
  const ipam = { type: "host-local", dataDir, ranges: [[{ subnet: "10.253.79.0/24" }]] };
  return JSON.stringify({
    cniVersion: "1.0.0",
    name: "launcher",
    plugins: [{ type: "ptp", ipam }],
  });
}

function makeVolumes(directory: string): void {
  for (const { name } of VOLUMES) {
    const volume = join(directory, name);
    mkdirSync(volume, { recursive: true });
    // As a kubelet creates them for an fsGroup.
    chownSync(volume, 0, UID);
    chmodSync(volume, 0o2777);
  }
}

function sandboxOf(name: string, cgroupParent: string): SandboxConfig {
  return {
    metadata: { name, namespace: "default", uid: name, attempt: 0 },
    hostname: name,
    logDirectory: "",
    labels: {},
    annotations: {},
    cgroupParent,
    sysctls: {},
    security: {
      namespaces: NAMESPACES,
      runAsUser: UID,
      runAsGroup: UID,
      supplementalGroups: [UID],
      readonlyRootfs: true,
      privileged: false,
      seccomp: "RuntimeDefault",
    },
  };
}

function containerOf(directory: string, guestImage: string, graceSeconds: number): ContainerConfig {
  const mounts = VOLUMES.map(({ name, mountPath }) => ({
    containerPath: mountPath,
    hostPath: join(directory, name),
    readonly: false,
    propagation: "PRIVATE" as const,
  }));
  const kernel = {
    containerPath: names.KERNEL_BOOT_DIR,
    hostPath: guestImage,
    readonly: true,
    propagation: "PRIVATE" as const,
  };
  return {
    metadata: { name: names.LAUNCHER_CONTAINER, attempt: 0 },
    image: "localhost/patchbay/virt-launcher:dev",
    command: [],
    args: [],
    workingDir: "",
    env: [["SHUTDOWN_SECONDS", String(graceSeconds)]],
    mounts: [...mounts, kernel],
    devices: [{ containerPath: "/dev/net/tun", hostPath: "/dev/net/tun", permissions: "rw" }],
    labels: {},
    annotations: {},
    logPath: "",
    stdin: false,
    stdinOnce: false,
    tty: false,
    resources: {},
    security: {
      namespaces: NAMESPACES,
      capabilities: { add: [], drop: ["ALL"] },
      privileged: false,
      runAsUser: UID,
      runAsGroup: UID,
      readonlyRootfs: true,
      supplementalGroups: [UID],
      noNewPrivileges: true,
      maskedPaths: ["/proc/keys", "/proc/kcore"],
      readonlyPaths: ["/proc/sys"],
      seccomp: "RuntimeDefault",
    },
  };
}

interface Parts {
  readonly runtime: ContainerRuntime;
  readonly containerd: ContainerdBench;
  readonly sandboxId: string;
  readonly id: string;
  readonly directory: string;
  readonly startTail: () => Promise<string>;
  /** The guest's domain XML. */
  readonly domain: string;
}

/** A container's processes, wherever its control group is. */
function pidsOf({ containerd, id }: Parts): readonly number[] {
  const paths = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"].map((top) =>
    join(top, containerd.cgroupParent, id, "cgroup.procs"),
  );
  const path = paths.find(existsSync);
  if (path === undefined) return [];
  const lines = readFileSync(path, "utf8").split("\n");
  return lines.filter((line) => line !== "").map(Number);
}

function readProcess(pid: number, file: string): string {
  try {
    return readFileSync(`/proc/${String(pid)}/${file}`, "utf8");
  } catch {
    return ""; // it has just ended
  }
}

/** Whether it is the first process of its container. Its host pid need not be the lowest, because pids wrap around. */
function isInit(pid: number): boolean {
  return /^NSpid:.*\t1$/m.test(readProcess(pid, "status"));
}

/** The sidecar container, which has the launcher's volume read-only. */
function tailOf(config: ContainerConfig): ContainerConfig {
  const volume = config.mounts.filter(({ containerPath }) => containerPath === names.LAUNCHER_DIR);
  return {
    ...config,
    metadata: { name: names.CONSOLE_LOG_CONTAINER, attempt: 0 },
    command: ["/usr/bin/virt-tail"],
    mounts: volume.map((mount) => ({ ...mount, readonly: true })),
    devices: [],
  };
}

async function exitCodeOf(
  runtime: ContainerRuntime,
  id: string,
  withinMs: number,
): Promise<number> {
  const find = async () => {
    const status = await runtime.findContainer(id);
    return status?.state === "EXITED" && status;
  };
  return (await eventually(find, { withinMs })).exitCode;
}

async function openPod(parts: Parts): Promise<LauncherPod> {
  const { runtime, sandboxId, id, directory } = parts;
  const volume = join(directory, "launcher");
  const socket = join(volume, names.LIBVIRT_SOCKET);
  const consoles: GuestConsole[] = [];
  const virsh = async (...args: readonly string[]): Promise<string> => {
    const uri = `qemu:///session?socket=${socket}`;
    return (await run("virsh", ["-q", "-c", uri, ...args], { timeout: 120_000 })).stdout;
  };
  const start = async (kernel = "vmlinuz"): Promise<void> => {
    const xml = join(directory, "domain.xml");
    writeFileSync(xml, parts.domain.replace("vmlinuz", kernel));
    await virsh("define", xml);
    await virsh("start", "vm");
  };
  const pod: LauncherPod = {
    volume,
    state: join(directory, "state"),
    virsh,
    start,
    boot: async () => {
      await start();
      const guest = openGuestConsole({
        socketPath: join(volume, names.CONSOLE_SOCKET),
        logPath: join(volume, names.CONSOLE_LOG),
      });
      consoles.push(guest);
      await guest.waitForLine(/^guest ready$/, { timeoutMs: 30_000, fromStart: true });
      return guest;
    },
    exec: (...command) => runtime.execSync(id, command, EXEC_SECONDS),
    pids: (program) => pidsOf(parts).filter((pid) => readProcess(pid, "comm").startsWith(program)),
    log: (name) => join(directory, "tmp/launcher/cache/libvirt/qemu/log", `${name}.log`),
    terminate: async () => {
      const init = pidsOf(parts).find(isInit);
      if (init !== undefined) process.kill(init, "SIGTERM");
      return Promise.resolve();
    },
    exitCode: (withinMs) => exitCodeOf(runtime, id, withinMs),
    startTail: async () => {
      const tailId = await parts.startTail();
      return { exitCode: (withinMs) => exitCodeOf(runtime, tailId, withinMs) };
    },
    remove: async () => {
      for (const guest of consoles) guest.close();
      await runtime.stopSandbox(sandboxId);
      await runtime.removeSandbox(sandboxId);
    },
  };
  await eventually(async () => existsSync(socket) && (await virsh("version")), {
    withinMs: 30_000,
  });
  return pod;
}
