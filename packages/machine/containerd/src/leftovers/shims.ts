// SPDX-License-Identifier: Apache-2.0
// Which processes has a containerd left that does not run any more? Shims outlive it, and that is right until the machine
// goes down.
import type { Files } from "@patchbay/core/ports";

const SHIM = /(^|\/)containerd-shim-[^/]+$/;
const PID = /^\d+$/;
/** What can be a container's name, and so part of a path. Source: containerd identifiers. */
const CONTAINER_ID = /^[A-Za-z0-9]+([._-][A-Za-z0-9]+)*$/;

/** A process as `/proc` tells of it. */
export interface ProcessFacts {
  readonly pid: number;
  readonly parent: number;
  readonly argv: readonly string[];
  /** Whether it is root's, and in the namespace of processes that `/proc` is of: none in a tenant's pod is. */
  readonly isHosts: boolean;
}

/** Lines of `status`; the name before them has its line ends escaped. Source: proc(5). */
const PARENT = /^PPid:\t(\d+)$/m;
const ROOTS = /^Uid:\t0\t0\t/m;
const ONE_NAMESPACE = /^NSpid:\t\d+$/m;

async function readProcess(files: Files, name: string): Promise<readonly ProcessFacts[]> {
  try {
    const status = (await files.readText(`/proc/${name}/status`)) ?? "";
    const cmdline = (await files.readText(`/proc/${name}/cmdline`)) ?? "";
    const parent = Number(PARENT.exec(status)?.[1]);
    const isHosts = ROOTS.test(status) && ONE_NAMESPACE.test(status);
    return [{ pid: Number(name), parent, argv: cmdline.split("\0").slice(0, -1), isHosts }];
  } catch {
    return []; // it has ended meanwhile
  }
}

/** All processes of the machine. */
export async function listProcesses(files: Files): Promise<readonly ProcessFacts[]> {
  const names = (await files.list("/proc")).filter((name) => PID.test(name));
  return (await Promise.all(names.map((name) => readProcess(files, name)))).flat();
}

/** Anybody can call a process so, and give it the arguments of a shim: it must be the host's too. */
function isShimOf({ argv, isHosts }: ProcessFacts, socket: string): boolean {
  const address = argv[argv.indexOf("-address") + 1];
  return isHosts && SHIM.test(argv[0] ?? "") && address === socket;
}

/** Pids of the shims of the containerd of that socket. */
export function shimsOf(all: readonly ProcessFacts[], socket: string): readonly number[] {
  return all.filter((each) => isShimOf(each, socket)).map(({ pid }) => pid);
}

/** The container that a shim was started for; undefined: it is none. */
export function idOfShim(all: readonly ProcessFacts[], pid: number): string | undefined {
  const argv = all.find((each) => each.pid === pid)?.argv ?? [];
  const id = argv.includes("-id") ? argv[argv.indexOf("-id") + 1] : undefined;
  return id !== undefined && CONTAINER_ID.test(id) ? id : undefined;
}

/** These processes, and everything below them, children after their parents. */
export function familyOf(all: readonly ProcessFacts[], pids: readonly number[]): readonly number[] {
  const family = [...pids];
  for (const pid of family) {
    family.push(...all.filter(({ parent }) => parent === pid).map((child) => child.pid));
  }
  return [...new Set(family)];
}

/** The shims of the containerd of that socket, and everything below them, children after their parents. */
export function shimFamilies(all: readonly ProcessFacts[], socket: string): readonly number[] {
  return familyOf(all, shimsOf(all, socket));
}
