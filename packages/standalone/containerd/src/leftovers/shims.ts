// SPDX-License-Identifier: Apache-2.0
import type { Files } from "@patchbay/core/interfaces";

const SHIM_PATH = /(^|\/)containerd-shim-[^/]+$/;
const PID_PATTERN = /^\d+$/;
/** Pattern of container ids, which become part of a path. Source: containerd identifiers. */
const CONTAINER_ID_PATTERN = /^[A-Za-z0-9]+([._-][A-Za-z0-9]+)*$/;

export interface ProcessFacts {
  readonly pid: number;
  readonly parent: number;
  readonly argv: readonly string[];
  /** Whether the process runs as root in the host's pid namespace, which is never true for processes of tenants' pods. */
  readonly isHostRoot: boolean;
}

/** Patterns of lines in `/proc/PID/status`. No process name can imitate a line, because newlines are escaped. Source: proc(5). */
const PARENT_LINE_PATTERN = /^PPid:\t(\d+)$/m;
const ROOT_USER_LINE_PATTERN = /^Uid:\t0\t0\t/m;
const HOST_PID_NAMESPACE_LINE_PATTERN = /^NSpid:\t\d+$/m;

async function readProcess(files: Files, name: string): Promise<readonly ProcessFacts[]> {
  try {
    const status = (await files.readText(`/proc/${name}/status`)) ?? "";
    const cmdline = (await files.readText(`/proc/${name}/cmdline`)) ?? "";
    const parent = Number(PARENT_LINE_PATTERN.exec(status)?.[1]);
    const isHostRoot =
      ROOT_USER_LINE_PATTERN.test(status) && HOST_PID_NAMESPACE_LINE_PATTERN.test(status);
    return [{ pid: Number(name), parent, argv: cmdline.split("\0").slice(0, -1), isHostRoot }];
  } catch {
    return []; // The process has ended.
  }
}

export async function listProcesses(files: Files): Promise<readonly ProcessFacts[]> {
  const names = (await files.list("/proc")).filter((name) => PID_PATTERN.test(name));
  return (await Promise.all(names.map((name) => readProcess(files, name)))).flat();
}

/** Returns whether the process is a shim of the containerd at `socket`. Checks its user too, because tenants can copy its arguments. */
function isShimOf({ argv, isHostRoot }: ProcessFacts, socket: string): boolean {
  const address = argv[argv.indexOf("-address") + 1];
  return isHostRoot && SHIM_PATH.test(argv[0] ?? "") && address === socket;
}

export function findShims(processes: readonly ProcessFacts[], socket: string): readonly number[] {
  return processes.filter((each) => isShimOf(each, socket)).map(({ pid }) => pid);
}

export function findContainerId(
  processes: readonly ProcessFacts[],
  pid: number,
): string | undefined {
  const argv = processes.find((each) => each.pid === pid)?.argv ?? [];
  const id = argv.includes("-id") ? argv[argv.indexOf("-id") + 1] : undefined;
  return id !== undefined && CONTAINER_ID_PATTERN.test(id) ? id : undefined;
}

/** Returns `pids` and the pids of all descendants. Each parent precedes its children. */
export function listDescendants(
  processes: readonly ProcessFacts[],
  pids: readonly number[],
): readonly number[] {
  const descendants = [...pids];
  for (const pid of descendants) {
    descendants.push(...processes.filter(({ parent }) => parent === pid).map((child) => child.pid));
  }
  return [...new Set(descendants)];
}

export function listShimDescendants(
  processes: readonly ProcessFacts[],
  socket: string,
): readonly number[] {
  return listDescendants(processes, findShims(processes, socket));
}
