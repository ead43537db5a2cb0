// SPDX-License-Identifier: Apache-2.0
// Observes this machine through the container runtime, `ip` and files in /proc, /sys and /etc.
import { AppError, messageOf } from "@patchbay/base";
import type { ProcessRunner, ContainerRuntime, Files } from "@patchbay/core/interfaces";
import { readBootId } from "@patchbay/os";
import { names } from "@patchbay/api";
import { DEVICES } from "../translate/resources.ts";

const TIMEOUT_MS = 10_000;

/** @throws AppError with OS_PROGRAM_FAILED, OS_PROGRAM_MISSING, OS_TIMED_OUT */
export async function runProgram(
  runner: ProcessRunner,
  ...argv: readonly [string, ...string[]]
): Promise<string> {
  const { exitCode, stdout, stderr } = await runner.run({ argv, timeoutMs: TIMEOUT_MS });
  if (exitCode === 0) return stdout;
  const details = { program: argv.slice(0, 3).join(" "), exitCode, stderr: stderr.trim() };
  throw new AppError("OS_PROGRAM_FAILED", details);
}

export interface MachineIdentity {
  /** CPU architecture in the notation of Node.js, `x64` or `arm64`. */
  readonly architecture: string;
  readonly hostIp: string;
  /** Source: random/boot_id, see proc(5). */
  readonly bootId: string;
  /** Empty if the host has no id. Source: machine-id(5). */
  readonly machineId: string;
  /** Empty if the firmware provides no UUID. Source: SMBIOS. */
  readonly systemUuid: string;
  readonly kernelVersion: string;
  /** Source: PRETTY_NAME, see os-release(5). */
  readonly osImage: string;
  /** For example `containerd://1.6.20`. */
  readonly runtimeVersion: string;
}

export interface MachineFacts {
  readonly cpus: number;
  readonly memoryKiB: number;
  readonly memoryAvailableKiB: number;
  /** Size of the file system that contains the pods' directories. */
  readonly diskKiB: number;
  readonly diskFreeKiB: number;
  readonly threads: number;
  readonly threadsMax: number;
  readonly devices: readonly string[];
  readonly hasDefaultNetwork: boolean;
  readonly runtimeProblem: string | undefined;
}

interface IpLink {
  readonly flags?: readonly string[];
  readonly addr_info?: readonly { readonly local?: string; readonly scope?: string }[];
}

/** Returns the first global address, or 127.0.0.1 if none exists. Ignores the loopback link, which may have addresses of Services. */
export function parseHostIp(text: string): string {
  // Source: output of iproute2's `ip -j addr`.
  const links = JSON.parse(text === "" ? "[]" : text) as readonly IpLink[];
  const addresses = links
    .filter(({ flags = [] }) => !flags.includes("LOOPBACK"))
    .flatMap((link) => link.addr_info ?? []);
  return addresses.find(({ scope }) => scope === "global")?.local ?? "127.0.0.1";
}

async function readLine(files: Files, path: string): Promise<string> {
  return ((await files.readText(path)) ?? "").trim();
}

type RuntimeIdentity = Pick<MachineIdentity, "architecture" | "runtimeVersion">;

export async function readIdentity(
  { files, runner }: { readonly files: Files; readonly runner: ProcessRunner },
  runtimeIdentity: RuntimeIdentity,
): Promise<MachineIdentity> {
  const release = await readLine(files, "/etc/os-release");
  return {
    ...runtimeIdentity,
    hostIp: parseHostIp(await runProgram(runner, "ip", "-j", "-4", "addr", "show", "up")),
    bootId: await readBootId(files),
    machineId: await readLine(files, "/etc/machine-id"),
    systemUuid: await readLine(files, "/sys/class/dmi/id/product_uuid"),
    kernelVersion: await readLine(files, "/proc/sys/kernel/osrelease"),
    osImage: /^PRETTY_NAME="?([^"\n]*)"?$/m.exec(release)?.[1] ?? "Linux",
  };
}

function parseNumber(text: string, pattern: RegExp): number {
  return Number(pattern.exec(text)?.[1] ?? "0");
}

async function listDevices(files: Files): Promise<readonly string[]> {
  // The vhost-user resource represents a directory, not a device, so it is always listed.
  const resources: string[] = [names.VHOST_USER_RESOURCE];
  for (const [resource, device] of DEVICES) {
    if (await files.exists(device)) resources.push(resource);
  }
  return resources;
}

export interface MachineSources {
  readonly files: Files;
  readonly runtime: Pick<ContainerRuntime, "findProblem">;
  readonly podsDir: string;
  readonly cniConfDir: string;
}

async function findRuntimeProblem({ runtime }: MachineSources): Promise<string | undefined> {
  try {
    return await runtime.findProblem();
  } catch (error) {
    return messageOf(error);
  }
}

/** Returns the smaller of threads-max and pid_max, because both limit the number of threads. Source: proc(5). */
async function readThreadsMax(files: Files): Promise<number> {
  const settings = ["threads-max", "pid_max"];
  const limits = settings.map((name) => readLine(files, `/proc/sys/kernel/${name}`));
  return Math.min(...(await Promise.all(limits)).map(Number));
}

export async function readMachine(sources: MachineSources): Promise<MachineFacts> {
  const { files, podsDir, cniConfDir } = sources;
  const memory = await readLine(files, "/proc/meminfo");
  const cpus = await readLine(files, "/proc/cpuinfo");
  const { sizeBytes, freeBytes } = await files.readSpace(podsDir);
  return {
    cpus: cpus.match(/^processor\s*:/gm)?.length ?? 1,
    memoryKiB: parseNumber(memory, /^MemTotal:\s*(\d+) kB$/m),
    memoryAvailableKiB: parseNumber(memory, /^MemAvailable:\s*(\d+) kB$/m),
    diskKiB: Math.floor(sizeBytes / 1024),
    diskFreeKiB: Math.floor(freeBytes / 1024),
    threads: parseNumber(await readLine(files, "/proc/loadavg"), /\/(\d+)/),
    threadsMax: await readThreadsMax(files),
    devices: await listDevices(files),
    hasDefaultNetwork: (await files.list(cniConfDir)).some((name) => /\.conf(list)?$/.test(name)),
    runtimeProblem: await findRuntimeProblem(sources),
  };
}
