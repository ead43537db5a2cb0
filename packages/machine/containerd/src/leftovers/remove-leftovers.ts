// SPDX-License-Identifier: Apache-2.0
// What must be gone when a containerd that has ended is not to be started again.
import { basename, dirname } from "node:path";
import type { Files, ProcessRunner } from "@patchbay/core/ports";
import type { ContainerdLayout } from "../layout.ts";
import { removeShimSockets, SHIM_SOCKETS } from "./shim-sockets.ts";
import { listProcesses, shimFamilies } from "./shims.ts";
import { unmountBelow } from "./mounts.ts";

const TIMEOUT_MS = 10_000;

/** The host, and the places of a containerd that has ended. */
export interface LeftoverDeps {
  readonly files: Files;
  readonly runner: ProcessRunner;
  readonly layout: ContainerdLayout;
  readonly bootId: string;
  /** Kills that process alone, and waits for its end; gone is success. */
  readonly kill: (pid: number) => Promise<void>;
}

/** What was there. */
export interface Leftovers {
  readonly processes: number;
  readonly mounts: number;
}

/** Where shims' sockets were: made by the first of them, whosever it was. */
async function removeEmptyDirectories({ files, runner }: LeftoverDeps): Promise<void> {
  const parent = dirname(SHIM_SOCKETS);
  // Anything else in it is another containerd's.
  if ((await files.list(parent)).join() !== basename(SHIM_SOCKETS)) return;
  const argv = ["rmdir", "--ignore-fail-on-non-empty", SHIM_SOCKETS, parent] as const;
  await runner.run({ argv, timeoutMs: TIMEOUT_MS });
}

/** Kills what runs in containers, takes mounts away, and removes sockets and state. Images and names stay. */
export async function removeContainerdLeftovers(deps: LeftoverDeps): Promise<Leftovers> {
  const { files, layout, kill } = deps;
  // Children before their shims, which would tell nobody of their end.
  const pids = shimFamilies(await listProcesses(files), layout.socket).toReversed();
  for (const pid of pids) await kill(pid);
  const mounts = await unmountBelow(deps, layout.directory);
  await removeShimSockets(deps);
  await removeEmptyDirectories(deps);
  for (const path of [layout.state, layout.runDirectory]) await files.remove(path);
  return { processes: pids.length, mounts: mounts.length };
}
