// SPDX-License-Identifier: Apache-2.0
// Processes that outlive containerd: its shims and their containers.
import type { Files } from "@patchbay/core/interfaces";

const SHIM = /(^|\/)containerd-shim-[^/]+$/;
const PID = /^\d+$/;
/** The id becomes part of a path. Source: containerd identifiers. */
const CONTAINER_ID = /^[A-Za-z0-9]+([._-][A-Za-z0-9]+)*$/;

export interface ProcessFacts {
  readonly pid: number;
  readonly parent: number;
  readonly argv: readonly string[];
  /** No process in a tenant's pod is root in the host's pid namespace. */
  readonly isHostRoot: boolean;
}

/** Lines of `status`; newlines in the process name are escaped. Source: proc(5). */
const PARENT = /^PPid:\t(\d+)$/m;
const ROOT_USER = /^Uid:\t0\t0\t/m;
const HOST_PID_NAMESPACE = /^NSpid:\t\d+$/m;

async function readProcess(files: Files, name: string): Promise<readonly ProcessFacts[]> {
  try {
    const status = (await files.readText(`/proc/${name}/status`)) ?? "";
    const cmdline = (await files.readText(`/proc/${name}/cmdline`)) ?? "";
    const parent = Number(PARENT.exec(status)?.[1]);
    const isHostRoot = ROOT_USER.test(status) && HOST_PID_NAMESPACE.test(status);
    return [{ pid: Number(name), parent, argv: cmdline.split("\0").slice(0, -1), isHostRoot }];
  } catch {
    return []; // the process has ended
  }
}

export async function listProcesses(files: Files): Promise<readonly ProcessFacts[]> {
  const names = (await files.list("/proc")).filter((name) => PID.test(name));
  return (await Promise.all(names.map((name) => readProcess(files, name)))).flat();
}

/** A tenant can choose a process's name and arguments, so the process must also be the host's. */
function isShimOf({ argv, isHostRoot }: ProcessFacts, socket: string): boolean {
  const address = argv[argv.indexOf("-address") + 1];
  return isHostRoot && SHIM.test(argv[0] ?? "") && address === socket;
}

/** Returns the pids of the shims of the containerd with that socket. */
export function findShims(all: readonly ProcessFacts[], socket: string): readonly number[] {
  return all.filter((each) => isShimOf(each, socket)).map(({ pid }) => pid);
}

export function findContainerId(all: readonly ProcessFacts[], pid: number): string | undefined {
  const argv = all.find((each) => each.pid === pid)?.argv ?? [];
  const id = argv.includes("-id") ? argv[argv.indexOf("-id") + 1] : undefined;
  return id !== undefined && CONTAINER_ID.test(id) ? id : undefined;
}

/** Children after their parents. */
export function listDescendants(
  all: readonly ProcessFacts[],
  pids: readonly number[],
): readonly number[] {
  const family = [...pids];
  for (const pid of family) {
    family.push(...all.filter(({ parent }) => parent === pid).map((child) => child.pid));
  }
  return [...new Set(family)];
}

export function listShimDescendants(
  all: readonly ProcessFacts[],
  socket: string,
): readonly number[] {
  return listDescendants(all, findShims(all, socket));
}
