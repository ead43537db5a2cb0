// SPDX-License-Identifier: Apache-2.0
// The containerd of this machine: where it is, what starts it, and what must not stay of it.
import { createHash } from "node:crypto";
import { join } from "node:path";
import {
  containerdCommand,
  layoutOf,
  prepareContainerd,
  removeContainerdLeftovers,
  removeDeadSocket,
  waitUntilServing,
  type ContainerdLayout,
} from "@patchbay/containerd";
import { names } from "@patchbay/api";
import { killAndWait } from "@patchbay/os";
import type { Clock, Files, Logger, ProcessRunner } from "@patchbay/core/ports";
import type { Paths } from "../data-dir/paths.ts";
import type { ComponentProgram } from "../supervisor/component.ts";

/** How long it may take until it answers, milliseconds. */
const READY_TIMEOUT_MS = 30_000;
/** Of the data directory's hash, hexadecimal digits: machines of one host are told apart. */
const HASH_LENGTH = 8;

/** The host, and the machine's directories on it. */
export interface RuntimeDeps {
  readonly files: Files;
  readonly runner: ProcessRunner;
  readonly log: Logger;
  readonly paths: Paths;
  readonly bootId: string;
}

/**
 * Where it keeps what.
 * @throws AppError with CONTAINERD_PATH_TOO_LONG when the data directory's path is
 */
export function containerdLayoutOf({ containerd, run, cniConf }: Paths): ContainerdLayout {
  return layoutOf({
    directory: containerd,
    runDirectory: join(run, "containerd"),
    cniConfDirectory: cniConf,
  });
}

/** Where it speaks CRI. */
export function criEndpointOf(paths: Paths): string {
  return `unix://${containerdLayoutOf(paths).socket}`;
}

/** The control group of all pods of this machine, and of no other's, in each hierarchy. */
export function cgroupRootOf({ dataDir }: Pick<Paths, "dataDir">): string {
  const hash = createHash("sha256").update(dataDir).digest("hex");
  return `/patchbay-${hash.slice(0, HASH_LENGTH)}`;
}

/** Its process; the configuration is written before each start. */
export function containerdProgram(
  deps: Pick<RuntimeDeps, "files" | "runner" | "paths"> & { readonly clock: Clock },
): ComponentProgram {
  const { files, runner, paths, clock } = deps;
  const layout = containerdLayoutOf(paths);
  return {
    name: "containerd",
    argv: containerdCommand(layout),
    beforeStart: () => removeDeadSocket(files, layout),
    untilReady: (signal) => waitUntilServing({ runner, layout, clock }, READY_TIMEOUT_MS, signal),
  };
}

/** Writes its configuration; returns how it keeps root file systems, for a person. */
export async function prepareOwnContainerd(deps: RuntimeDeps): Promise<string> {
  const { files, runner, bootId, paths } = deps;
  const layout = containerdLayoutOf(paths);
  const sandboxImage = names.PAUSE_IMAGE;
  const snapshotter = await prepareContainerd({ files, runner, layout }, { sandboxImage, bootId });
  return snapshotter === "native" ? "as copies: overlays cannot be mounted here" : "as overlays";
}

/** Ends what runs in containers still, once containerd has ended; images stay. */
export async function removeOwnContainerd(deps: RuntimeDeps): Promise<void> {
  const { log, paths } = deps;
  const layout = containerdLayoutOf(paths);
  const left = await removeContainerdLeftovers({ ...deps, layout, kill: killAndWait });
  if (left.processes > 0)
    log.warn("processes of containers were left and are ended", { count: left.processes });
}
