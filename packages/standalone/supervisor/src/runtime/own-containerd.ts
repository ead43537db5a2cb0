// SPDX-License-Identifier: Apache-2.0
import { createHash } from "node:crypto";
import { basename, join } from "node:path";
import {
  containerdCommand,
  buildLayout,
  prepareContainerd,
  removeContainerdLeftovers,
  removeDeadSocket,
  waitUntilServing,
  type ContainerdLayout,
} from "@patchbay/containerd";
import { names } from "@patchbay/api";
import { PLUGIN_PROGRAM } from "@patchbay/cni";
import { killAndWait } from "@patchbay/os";
import type { Clock, Logger } from "@patchbay/base";
import type { Files, ProcessRunner } from "@patchbay/core/interfaces";
import type { Paths } from "../data-dir/paths.ts";
import type { ComponentProgram } from "../supervisor/component.ts";

const READY_TIMEOUT_MS = 30_000;
/** Length of the hash in the control group's name. The hash of the data directory distinguishes the machines of one host. */
const HASH_LENGTH = 8;

export interface RuntimeDeps {
  readonly files: Files;
  readonly runner: ProcessRunner;
  readonly log: Logger;
  readonly paths: Paths;
  readonly bootId: string;
}

/** @throws AppError with CONTAINERD_PATH_TOO_LONG */
export function buildContainerdLayout({ containerd, run, cniConf }: Paths): ContainerdLayout {
  return buildLayout({
    directory: containerd,
    runDirectory: join(run, "containerd"),
    cniConfDirectory: cniConf,
  });
}

export function buildCriEndpoint(paths: Paths): string {
  return `unix://${buildContainerdLayout(paths).socket}`;
}

export function buildCgroupRoot({ dataDir }: Pick<Paths, "dataDir">): string {
  const hash = createHash("sha256").update(dataDir).digest("hex");
  return `/patchbay-${hash.slice(0, HASH_LENGTH)}`;
}

export function containerdProgram(
  deps: Pick<RuntimeDeps, "files" | "runner" | "paths"> & { readonly clock: Clock },
): ComponentProgram {
  const { files, runner, paths, clock } = deps;
  const layout = buildContainerdLayout(paths);
  return {
    name: "containerd",
    argv: containerdCommand(layout),
    niceness: 10,
    beforeStart: () => removeDeadSocket(files, layout),
    untilReady: (signal) => waitUntilServing({ runner, layout, clock }, READY_TIMEOUT_MS, signal),
  };
}

/** Prepares containerd. Returns a text for users about how layers are stored, for example `as overlays`. */
export async function prepareOwnContainerd(deps: RuntimeDeps): Promise<string> {
  const { files, runner, bootId, paths } = deps;
  const layout = buildContainerdLayout(paths);
  const program = PLUGIN_PROGRAM;
  const snapshotter = await prepareContainerd(
    { files, runner, layout },
    {
      sandboxImage: names.PAUSE_IMAGE,
      bootId,
      ownNetworks: { program, type: basename(program), socket: paths.cniSocket },
    },
  );
  return snapshotter === "native" ? "as copies: overlays cannot be mounted here" : "as overlays";
}

/** Removes containerd's processes, mounts and sockets. Preserves images. containerd must have ended. */
export async function removeOwnContainerd(deps: RuntimeDeps): Promise<void> {
  const { log, paths } = deps;
  const layout = buildContainerdLayout(paths);
  const leftovers = await removeContainerdLeftovers({ ...deps, layout, kill: killAndWait });
  if (leftovers.processes > 0)
    log.warn("leftover container processes were killed", { count: leftovers.processes });
}
