// SPDX-License-Identifier: Apache-2.0
// Removes a stopped machine's bridges, mounts, loop devices, control groups and CNI results from the host, and thaws claims.
import { type CleaningDeps, removeBridges } from "./bridges.ts";
import { messageOf } from "@patchbay/base";
import { isMountPoint, removeCgroups, unmountBelow } from "@patchbay/containerd";
import { acquireFileLock, type FileLock, type LockHolder } from "@patchbay/os";
import { join } from "node:path";
import type { Paths } from "../data-dir/paths.ts";
import { buildCgroupRoot, removeOwnContainerd } from "../runtime/own-containerd.ts";
import { removeCniResults } from "./cni.ts";

const LOSETUP_TIMEOUT_MS = 10_000;
const THAW_TIMEOUT_MS = 10_000;

/** Returns the loop devices whose files are below a directory. Omits AUTOCLEAR devices, because the kernel detaches these devices. */
export function parseLoopDevicesBelow(listing: string, directory: string): readonly string[] {
  return listing.split("\n").flatMap((line) => {
    const [device = "", autoclear, ...file] = line.trimStart().split(" ");
    // With --raw, losetup escapes spaces and similar characters, for example as \x20.
    const path = file
      .join(" ")
      .replace(/\\x([0-9a-f]{2})/g, (_, code: string) =>
        String.fromCharCode(Number.parseInt(code, 16)),
      );
    return autoclear === "0" && path.startsWith(`${directory}/`) ? [device] : [];
  });
}

/** Detaches leftover loop devices of files in the data directory. The kernel detaches a device in use after its last user closes it. */
export async function removeLoops({ runner, paths, log }: CleaningDeps): Promise<void> {
  const list = [
    "losetup",
    "--list",
    "--noheadings",
    "--raw",
    "--output",
    "NAME,AUTOCLEAR,BACK-FILE",
  ] as const;
  const { stdout } = await runner.run({ argv: list, timeoutMs: LOSETUP_TIMEOUT_MS });
  for (const device of parseLoopDevicesBelow(stdout, paths.dataDir)) {
    log.warn("removed a leftover loop device", { path: device });
    await runner.run({ argv: ["losetup", "--detach", device], timeoutMs: LOSETUP_TIMEOUT_MS });
  }
}

async function removeMounts(deps: CleaningDeps): Promise<void> {
  for (const path of await unmountBelow(deps, deps.paths.dataDir)) {
    deps.log.warn("removed a leftover mount", { path });
  }
}

async function removePodCgroups(deps: CleaningDeps): Promise<void> {
  await removeCgroups(deps, buildCgroupRoot(deps.paths));
}

export async function removeLeftovers(deps: CleaningDeps): Promise<void> {
  const steps = [
    removeOwnContainerd,
    removeMounts,
    removeLoops,
    removePodCgroups,
    removeCniResults,
  ];
  for (const step of [...steps, removeBridges]) {
    try {
      await step(deps);
    } catch (error) {
      deps.log.warn("host cleanup step failed", { reason: messageOf(error), err: error });
    }
  }
}

/** Only the holder of this lock may freeze or thaw claims. */
export function lockBackup({ backupLock }: Pick<Paths, "backupLock">): FileLock | LockHolder {
  return acquireFileLock(backupLock);
}

/** Thaws the mounted claims. Claims that are not frozen do not change: fsfreeze fails for them. The caller must hold the lock. */
export async function thawClaims({
  files,
  runner,
  paths,
}: Pick<CleaningDeps, "files" | "runner"> & {
  readonly paths: Pick<Paths, "claims">;
}): Promise<void> {
  const mountinfo = (await files.readText("/proc/self/mountinfo")) ?? "";
  const points = (await files.list(paths.claims))
    .map((name) => join(paths.claims, name, "mount"))
    .filter((point) => isMountPoint(mountinfo, point));
  for (const point of points) {
    await runner.run({ argv: ["fsfreeze", "--unfreeze", point], timeoutMs: THAW_TIMEOUT_MS });
  }
}

/** Thaws claims that a killed backup left frozen. Does nothing while a backup runs. */
export async function thawLeftClaims(deps: Omit<CleaningDeps, "bootId">): Promise<void> {
  try {
    const lock = lockBackup(deps.paths);
    if (!("release" in lock)) return;
    try {
      await thawClaims(deps);
    } finally {
      lock.release();
    }
  } catch (error) {
    deps.log.warn("frozen claims cannot be thawed", { reason: messageOf(error), err: error });
  }
}
