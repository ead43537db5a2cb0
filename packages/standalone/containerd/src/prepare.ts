// SPDX-License-Identifier: Apache-2.0
// Prepares containerd's files before its start. Idempotent.
import { join, dirname } from "node:path";
import type { Files, ProcessRunner } from "@patchbay/core/interfaces";
import {
  type Snapshotter,
  buildBaseSpecText,
  CNI_PLUGINS,
  printConfig,
} from "./containerd-config.ts";
import { AppError } from "@patchbay/base";
import { parseErrorText } from "./ctr.ts";
import type { ContainerdLayout } from "./layout.ts";

const MOUNT_TIMEOUT_MS = 10_000;

/** Selects the snapshotter. Tries to mount an overlay, because support depends on the kernel and the file system. */
async function findSnapshotter(
  { files, runner }: { readonly files: Files; readonly runner: ProcessRunner },
  directory: string,
): Promise<Snapshotter> {
  const trialDirectory = join(directory, "overlay-trial");
  const [lower, upper, work, merged] = ["lower", "upper", "work", "merged"].map((name) =>
    join(trialDirectory, name),
  ) as [string, string, string, string]; // The cast is safe, because `map` returns one path per name.
  for (const path of [lower, upper, work, merged]) await files.ensureDirectory(path);
  const options = `lowerdir=${lower},upperdir=${upper},workdir=${work}`;
  try {
    const mount = ["mount", "-t", "overlay", "overlay", "-o", options, merged] as const;
    const { exitCode } = await runner.run({ argv: mount, timeoutMs: MOUNT_TIMEOUT_MS });
    if (exitCode !== 0) return "native";
    await runner.run({ argv: ["umount", merged], timeoutMs: MOUNT_TIMEOUT_MS });
    return "overlayfs";
  } finally {
    await files.remove(trialDirectory);
  }
}

const PRIVATE_MODE = 0o700;
/** Mode of the directories above containers' root file systems. The pods' users must be able to traverse these directories. */
const TRAVERSABLE_MODE = 0o711;
const TIMEOUT_MS = 20_000;

interface PrepareDeps {
  readonly files: Files;
  readonly runner: ProcessRunner;
  readonly layout: ContainerdLayout;
}

interface PrepareOptions {
  readonly sandboxImage: string;
  /** Id of the current boot. State of another boot is removed. */
  readonly bootId: string;
  /** Unset if pods cannot name their own default network. */
  readonly ownNetworks?: OwnNetworks;
}

/** CNI plugin for pods that name their own default network. */
interface OwnNetworks {
  readonly program: string;
  /** Member `type` of the plugin's CNI configuration. Must be the file name of `program`. */
  readonly type: string;
  /** Absolute path of the socket that the plugin calls. */
  readonly socket: string;
}

async function createDirectories({ files, layout }: PrepareDeps): Promise<void> {
  await files.ensureDirectory(dirname(layout.directory));
  for (const path of [layout.directory, layout.root, layout.state]) {
    await files.ensureDirectory(path, TRAVERSABLE_MODE);
  }
  for (const path of [layout.runDirectory, layout.opt, layout.registryHosts]) {
    await files.ensureDirectory(path, PRIVATE_MODE);
  }
}

/** Removes the state of an earlier boot, because the pids in it are no longer valid. */
async function removeOldState({ files, layout }: PrepareDeps, bootId: string): Promise<void> {
  if ((await files.readText(layout.stateBoot)) === bootId) return;
  await files.remove(layout.state);
  await files.ensureDirectory(layout.state, TRAVERSABLE_MODE);
  await files.writeAtomic(layout.stateBoot, bootId);
}

async function readBaseSpec({ runner }: PrepareDeps): Promise<string> {
  const argv = ["ctr", "oci", "spec"] as const;
  const { exitCode, stdout, stderr } = await runner.run({ argv, timeoutMs: TIMEOUT_MS });
  if (exitCode === 0) return buildBaseSpecText(stdout);
  throw new AppError("CONTAINERD_FAILED", { call: "oci spec", reason: parseErrorText(stderr) });
}

async function writeIfChanged(files: Files, path: string, text: string): Promise<void> {
  if (text !== (await files.readText(path))) await files.writeAtomic(path, text);
}

async function prepareOwnNetworks(deps: PrepareDeps, ownNetworks: OwnNetworks): Promise<void> {
  const { files, runner, layout } = deps;
  const { program, type, socket } = ownNetworks;
  for (const path of [layout.cniPlugins, layout.ownNetworkConf]) {
    await files.ensureDirectory(path, PRIVATE_MODE);
  }
  const plugins = (await files.list(CNI_PLUGINS)).map((name) => join(CNI_PLUGINS, name));
  const argv = ["ln", "-sf", "-t", layout.cniPlugins, ...plugins, program] as const;
  const { exitCode, stderr } = await runner.run({ argv, timeoutMs: TIMEOUT_MS });
  if (exitCode !== 0) {
    throw new AppError("OS_PROGRAM_FAILED", { program: "ln", exitCode, stderr: stderr.trim() });
  }
  const config = { cniVersion: "1.0.0", name: "own-network", plugins: [{ type, socket }] };
  const text = `${JSON.stringify(config, undefined, 2)}\n`;
  await writeIfChanged(files, join(layout.ownNetworkConf, "10-patchbay.conflist"), text);
}

/**
 * Prepares containerd's files and returns the selected snapshotter. Idempotent.
 * @throws AppError with OS_PROGRAM_MISSING, OS_PROGRAM_FAILED, CONTAINERD_FAILED
 */
export async function prepareContainerd(
  deps: PrepareDeps,
  { sandboxImage, bootId, ownNetworks }: PrepareOptions,
): Promise<Snapshotter> {
  const { files, layout } = deps;
  await createDirectories(deps);
  await removeOldState(deps, bootId);
  const snapshotter = await findSnapshotter(deps, layout.directory);
  await writeIfChanged(files, layout.baseSpec, await readBaseSpec(deps));
  if (ownNetworks !== undefined) await prepareOwnNetworks(deps, ownNetworks);
  const settings = { snapshotter, sandboxImage, hasOwnNetworks: ownNetworks !== undefined };
  await writeIfChanged(files, layout.config, printConfig(layout, settings));
  return snapshotter;
}

export function containerdCommand({ config }: ContainerdLayout): readonly [string, ...string[]] {
  return ["containerd", "--config", config];
}

/** Removes the socket of an ended containerd, so that clients wait for the next containerd's socket. */
export async function removeDeadSocket(files: Files, { socket }: ContainerdLayout): Promise<void> {
  await files.remove(socket);
}
