// SPDX-License-Identifier: Apache-2.0
// What is on disk before containerd is started; all of it may be repeated.
import { dirname } from "node:path";
import type { Files, ProcessRunner } from "@patchbay/core/ports";
import { AppError } from "@patchbay/core";
import { baseSpecText } from "./config/base-spec.ts";
import { configText, type Snapshotter } from "./config/config-text.ts";
import { reasonIn } from "./ctr.ts";
import type { ContainerdLayout } from "./layout.ts";
import { findSnapshotter } from "./snapshotter.ts";

const PRIVATE = 0o700;
/** Users of pods pass through to their root file systems. */
const TRAVERSABLE = 0o711;
const TIMEOUT_MS = 20_000;

/** Files, programs and places of one containerd. */
export interface PrepareDeps {
  readonly files: Files;
  readonly runner: ProcessRunner;
  readonly layout: ContainerdLayout;
}

/** What is chosen for it. */
export interface PrepareOptions {
  /** Reference of the image of which every sandbox's first container is. */
  readonly sandboxImage: string;
  /** Of this start of the host: what ran in another one is forgotten. */
  readonly bootId: string;
}

async function makeDirectories({ files, layout }: PrepareDeps): Promise<void> {
  await files.ensureDirectory(dirname(layout.directory));
  for (const path of [layout.directory, layout.root, layout.state]) {
    await files.ensureDirectory(path, TRAVERSABLE);
  }
  for (const path of [layout.runDirectory, layout.opt, layout.registryHosts]) {
    await files.ensureDirectory(path, PRIVATE);
  }
}

/** Of an earlier start of the host are names of processes that are others' by now. */
async function forgetOldState({ files, layout }: PrepareDeps, bootId: string): Promise<void> {
  if ((await files.readText(layout.stateBoot)) === bootId) return;
  await files.remove(layout.state);
  await files.ensureDirectory(layout.state, TRAVERSABLE);
  await files.writeAtomic(layout.stateBoot, bootId);
}

async function readBaseSpec({ runner }: PrepareDeps): Promise<string> {
  const argv = ["ctr", "oci", "spec"] as const;
  const { exitCode, stdout, stderr } = await runner.run({ argv, timeoutMs: TIMEOUT_MS });
  if (exitCode === 0) return baseSpecText(stdout);
  throw new AppError("CONTAINERD_FAILED", { call: "oci spec", reason: reasonIn(stderr) });
}

async function keepText(files: Files, path: string, text: string): Promise<void> {
  if (text !== (await files.readText(path))) await files.writeAtomic(path, text);
}

/**
 * Makes directories and configuration; containerd is then started with {@link containerdCommand}.
 * @throws AppError with OS_PROGRAM_MISSING when containerd is not installed, CONTAINERD_FAILED
 */
export async function prepareContainerd(
  deps: PrepareDeps,
  { sandboxImage, bootId }: PrepareOptions,
): Promise<Snapshotter> {
  const { files, layout } = deps;
  await makeDirectories(deps);
  await forgetOldState(deps, bootId);
  const snapshotter = await findSnapshotter(deps, layout.directory);
  await keepText(files, layout.baseSpec, await readBaseSpec(deps));
  await keepText(files, layout.config, configText(layout, { snapshotter, sandboxImage }));
  return snapshotter;
}

/** The command line of containerd. */
export function containerdCommand({ config }: ContainerdLayout): readonly [string, ...string[]] {
  return ["containerd", "--config", config];
}

/** Before each start: whoever waits for the socket waits for the new one, and is not refused by a dead one. */
export async function removeDeadSocket(files: Files, { socket }: ContainerdLayout): Promise<void> {
  await files.remove(socket);
}
