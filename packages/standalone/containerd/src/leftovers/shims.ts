// SPDX-License-Identifier: Apache-2.0
// Processes that outlive containerd: its shims and their containers.
import type { Files } from "@patchbay/core/interfaces";

const SHIM_PATH = /(^|\/)containerd-shim-[^/]+$/;
const PID_PATTERN = /^\d+$/;
/** Matches container ids, which become part of a path. Source: containerd identifiers. */
const CONTAINER_ID = /^[A-Za-z0-9]+([._-][A-Za-z0-9]+)*$/;

export interface ProcessFacts {
  readonly pid: number;
  readonly parent: number;
  readonly argv: readonly string[];
  /** Whether the process is root in the host's pid namespace, as no process in a tenant's pod is. */
  readonly isHostRoot: boolean;
}

/** Match lines of `status`, in which newlines in the process name are escaped. Source: proc(5). */
const PARENT_LINE = /^PPid:\t(\d+)$/m;
const ROOT_USER_LINE = /^Uid:\t0\t0\t/m;
const HOST_PID_NAMESPACE_LINE = /^NSpid:\t\d+$/m;

async function readProcess(files: Files, name: string): Promise<readonly ProcessFacts[]> {
  try {
    const status = (await files.readText(`/proc/${name}/status`)) ?? "";
    const cmdline = (await files.readText(`/proc/${name}/cmdline`)) ?? "";
    const parent = Number(PARENT_LINE.exec(status)?.[1]);
    const isHostRoot = ROOT_USER_LINE.test(status) && HOST_PID_NAMESPACE_LINE.test(status);
    return [{ pid: Number(name), parent, argv: cmdline.split("\0").slice(0, -1), isHostRoot }];
  } catch {
    return []; // the process has ended
  }
}

export async function listProcesses(files: Files): Promise<readonly ProcessFacts[]> {
  const names = (await files.list("/proc")).filter((name) => PID_PATTERN.test(name));
  return (await Promise.all(names.map((name) => readProcess(files, name)))).flat();
}

/** Requires host root, because a tenant can choose a process's name and arguments. */
function isShimOf({ argv, isHostRoot }: ProcessFacts, socket: string): boolean {
  const address = argv[argv.indexOf("-address") + 1];
  return isHostRoot && SHIM_PATH.test(argv[0] ?? "") && address === socket;
}

/** Returns the pids of the shims of the containerd with that socket. */
export function findShims(processes: readonly ProcessFacts[], socket: string): readonly number[] {
  return processes.filter((each) => isShimOf(each, socket)).map(({ pid }) => pid);
}

export function findContainerId(
  processes: readonly ProcessFacts[],
  pid: number,
): string | undefined {
  const argv = processes.find((each) => each.pid === pid)?.argv ?? [];
  const id = argv.includes("-id") ? argv[argv.indexOf("-id") + 1] : undefined;
  return id !== undefined && CONTAINER_ID.test(id) ? id : undefined;
}

/** Returns the processes and their descendants, children after their parents. */
export function listDescendants(
  processes: readonly ProcessFacts[],
  pids: readonly number[],
): readonly number[] {
  const family = [...pids];
  for (const pid of family) {
    family.push(...processes.filter(({ parent }) => parent === pid).map((child) => child.pid));
  }
  return [...new Set(family)];
}

export function listShimDescendants(
  processes: readonly ProcessFacts[],
  socket: string,
): readonly number[] {
  return listDescendants(processes, findShims(processes, socket));
}
