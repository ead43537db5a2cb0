// SPDX-License-Identifier: Apache-2.0
// What does this machine say of itself? Read anew for each heartbeat, from small files of the kernel.
import { messageOf } from "@patchbay/core";
import { readBootId } from "@patchbay/os";
import type { ContainerRuntime, Files, ProcessRunner } from "@patchbay/core/ports";
import { names } from "@patchbay/api";
import { DEVICES } from "../translate/devices.ts";
import { runProgram } from "../run-program.ts";

/** What cannot change while the runtime runs. */
export interface MachineIdentity {
  /** As Node.js says: `x64` or `arm64`. */
  readonly architecture: string;
  /** First global IPv4 address. */
  readonly hostIp: string;
  /** Boot of this machine. Source: proc(5) random/boot_id */
  readonly bootId: string;
  /** Source: machine-id(5); empty where there is none. */
  readonly machineId: string;
  /** Source: SMBIOS; empty where there is none. */
  readonly systemUuid: string;
  readonly kernelVersion: string;
  /** Source: os-release(5), PRETTY_NAME. */
  readonly osImage: string;
  /** Of the container runtime, for example `containerd://1.6.20`. */
  readonly runtimeVersion: string;
}

/** How it stands with the machine now. */
export interface MachineFacts {
  readonly cpus: number;
  readonly memoryKiB: number;
  readonly memoryAvailableKiB: number;
  /** The file system of the pods' directories. */
  readonly diskKiB: number;
  readonly diskFreeKiB: number;
  /** Threads that run, and how many there may be. */
  readonly threads: number;
  readonly threadsMax: number;
  /** Resource names of the devices that pods may ask for. */
  readonly devices: readonly string[];
  readonly hasDefaultNetwork: boolean;
  /** Why no pod can be run; undefined: they can. */
  readonly runtimeProblem: string | undefined;
}

interface IpLink {
  readonly flags?: readonly string[];
  readonly addr_info?: readonly { readonly local?: string; readonly scope?: string }[];
}

/**
 * The first global IPv4 address of the machine; 127.0.0.1 where there is none. Those of the loopback link are not the machine's:
 * services of clusters have them there, of this machine's and of others on it. `text`: what `ip -j addr` prints, or nothing.
 */
export function hostIpIn(text: string): string {
  // Source: iproute2 `ip -j addr`
  const links = JSON.parse(text === "" ? "[]" : text) as readonly IpLink[];
  const addresses = links
    .filter(({ flags = [] }) => !flags.includes("LOOPBACK"))
    .flatMap((link) => link.addr_info ?? []);
  return addresses.find(({ scope }) => scope === "global")?.local ?? "127.0.0.1";
}

async function readLine(files: Files, path: string): Promise<string> {
  return ((await files.readText(path)) ?? "").trim();
}

/** What is told by others. */
export type ToldIdentity = Pick<MachineIdentity, "architecture" | "runtimeVersion">;

/** Reads what stays as it is. */
export async function readIdentity(
  { files, runner }: { readonly files: Files; readonly runner: ProcessRunner },
  told: ToldIdentity,
): Promise<MachineIdentity> {
  const release = await readLine(files, "/etc/os-release");
  return {
    ...told,
    hostIp: hostIpIn(await runProgram(runner, "ip", "-j", "-4", "addr", "show", "up")),
    bootId: await readBootId(files),
    machineId: await readLine(files, "/etc/machine-id"),
    systemUuid: await readLine(files, "/sys/class/dmi/id/product_uuid"),
    kernelVersion: await readLine(files, "/proc/sys/kernel/osrelease"),
    osImage: /^PRETTY_NAME="?([^"\n]*)"?$/m.exec(release)?.[1] ?? "Linux",
  };
}

function numberIn(text: string, pattern: RegExp): number {
  return Number(pattern.exec(text)?.[1] ?? "0");
}

async function listDevices(files: Files): Promise<readonly string[]> {
  // Directories, of which there are as many as are asked for.
  const there: string[] = [names.VHOST_USER_RESOURCE];
  for (const [resource, device] of DEVICES) {
    if (await files.exists(device)) there.push(resource);
  }
  return there;
}

/** What is asked how it stands. */
export interface MachineSources {
  readonly files: Files;
  readonly runtime: Pick<ContainerRuntime, "problem">;
  readonly podsDir: string;
  /** Configuration of the default network. */
  readonly cniConfDir: string;
}

/** A runtime that does not answer is a problem as well. */
async function runtimeProblem({ runtime }: MachineSources): Promise<string | undefined> {
  try {
    return await runtime.problem();
  } catch (error) {
    return messageOf(error);
  }
}

/** Each thread has a number of its own as well. Source: proc(5) threads-max, pid_max; Kubernetes kubelet, node.stats.rlimit */
async function readThreadsMax(files: Files): Promise<number> {
  const names = ["threads-max", "pid_max"];
  const most = names.map((name) => readLine(files, `/proc/sys/kernel/${name}`));
  return Math.min(...(await Promise.all(most)).map(Number));
}

/** Reads how it stands now. */
export async function readMachine(sources: MachineSources): Promise<MachineFacts> {
  const { files, podsDir, cniConfDir } = sources;
  const memory = await readLine(files, "/proc/meminfo");
  const cpus = await readLine(files, "/proc/cpuinfo");
  const { sizeBytes, freeBytes } = await files.space(podsDir);
  return {
    cpus: cpus.match(/^processor\s*:/gm)?.length ?? 1,
    memoryKiB: numberIn(memory, /^MemTotal:\s*(\d+) kB$/m),
    memoryAvailableKiB: numberIn(memory, /^MemAvailable:\s*(\d+) kB$/m),
    diskKiB: Math.floor(sizeBytes / 1024),
    diskFreeKiB: Math.floor(freeBytes / 1024),
    threads: numberIn(await readLine(files, "/proc/loadavg"), /\/(\d+)/),
    threadsMax: await readThreadsMax(files),
    devices: await listDevices(files),
    hasDefaultNetwork: (await files.list(cniConfDir)).some((name) => /\.conf(list)?$/.test(name)),
    runtimeProblem: await runtimeProblem(sources),
  };
}
