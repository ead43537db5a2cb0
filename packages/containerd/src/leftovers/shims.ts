// SPDX-License-Identifier: Apache-2.0
// Which processes has a containerd left that does not run any more? Shims outlive it, and that is right until the machine
// goes down.
import type { Files } from "@patchbay/ports";

const SHIM = /(^|\/)containerd-shim-[^/]+$/;
const PID = /^\d+$/;

/** A process as `/proc` tells of it. */
export interface ProcessFacts {
  readonly pid: number;
  readonly parent: number;
  readonly argv: readonly string[];
}

/** Position of the parent's pid among the fields that follow the command's name. Source: proc(5), field 4. */
const PARENT = 4 - 3;

async function readProcess(files: Files, name: string): Promise<readonly ProcessFacts[]> {
  try {
    const stat = (await files.readText(`/proc/${name}/stat`)) ?? "";
    const cmdline = (await files.readText(`/proc/${name}/cmdline`)) ?? "";
    const parent = Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[PARENT]);
    return [{ pid: Number(name), parent, argv: cmdline.split("\0").slice(0, -1) }];
  } catch {
    return []; // it has ended meanwhile
  }
}

/** All processes of the machine. */
export async function listProcesses(files: Files): Promise<readonly ProcessFacts[]> {
  const names = (await files.list("/proc")).filter((name) => PID.test(name));
  return (await Promise.all(names.map((name) => readProcess(files, name)))).flat();
}

function isShimOf({ argv }: ProcessFacts, socket: string): boolean {
  const address = argv[argv.indexOf("-address") + 1];
  return SHIM.test(argv[0] ?? "") && address === socket;
}

/** Pids of the shims of the containerd of that socket. */
export function shimsOf(all: readonly ProcessFacts[], socket: string): readonly number[] {
  return all.filter((each) => isShimOf(each, socket)).map(({ pid }) => pid);
}

/** The container that a shim was started for; undefined: it is none. */
export function idOfShim(all: readonly ProcessFacts[], pid: number): string | undefined {
  const argv = all.find((each) => each.pid === pid)?.argv ?? [];
  return argv.includes("-id") ? argv[argv.indexOf("-id") + 1] : undefined;
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
