// SPDX-License-Identifier: Apache-2.0
// What must be gone when a containerd that has ended is not to be started again.
import type { Files, ProcessRunner } from "@patchbay/ports";
import type { ContainerdLayout } from "../layout.ts";
import { listProcesses, listShimSockets, shimFamilies } from "./shims.ts";
import { unmountBelow } from "./mounts.ts";

/** The host, and the places of a containerd that has ended. */
export interface LeftoverDeps {
  readonly files: Files;
  readonly runner: ProcessRunner;
  readonly layout: ContainerdLayout;
  /** Kills that process alone, and waits for its end; gone is success. */
  readonly kill: (pid: number) => Promise<void>;
}

/** What was there. */
export interface Leftovers {
  readonly processes: number;
  readonly mounts: number;
}

/** Kills what runs in containers, takes mounts away, and removes sockets and state. Images and names stay. */
export async function removeContainerdLeftovers(deps: LeftoverDeps): Promise<Leftovers> {
  const { files, layout, kill } = deps;
  const sockets = await listShimSockets(files, layout);
  // Children before their shims, which would tell nobody of their end.
  const pids = shimFamilies(await listProcesses(files), layout.socket).toReversed();
  for (const pid of pids) await kill(pid);
  const mounts = await unmountBelow(deps, layout.directory);
  for (const path of [...sockets, layout.state, layout.runDirectory]) await files.remove(path);
  return { processes: pids.length, mounts: mounts.length };
}
