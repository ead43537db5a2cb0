// SPDX-License-Identifier: Apache-2.0
import type { Stats } from "node:fs";
import { chmod, chown, lstat, mkdir, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { AppError } from "@patchbay/base";
import type { CopyResult, DeviceCopy, DeviceNodes, ProcessRunner } from "@patchbay/core/interfaces";
import { isMissing, toFileError } from "./file-errors.ts";

const TIMEOUT_MS = 10_000;
const PERMISSION_BITS = 0o7777;
const DIRECTORY_MODE = 0o755;

async function statIfExists(path: string): Promise<Stats | undefined> {
  try {
    return await lstat(path);
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw toFileError(error, "stat", path);
  }
}

function deviceType(status: Stats | undefined): "b" | "c" | undefined {
  if (status?.isCharacterDevice() === true) return "c";
  return status?.isBlockDevice() === true ? "b" : undefined;
}

/** Splits a device number into major and minor number. Source: linux/kdev_t.h new_decode_dev */
export function deviceNumbersOf({ rdev }: Stats): readonly [major: number, minor: number] {
  return [(rdev >>> 8) & 0xfff, (rdev & 0xff) | ((rdev >>> 12) & 0xfff00)];
}

export function matchesCopy(
  present: Stats | undefined,
  source: Stats,
  wanted: DeviceCopy,
): boolean {
  return (
    present !== undefined &&
    deviceType(present) === deviceType(source) &&
    present.rdev === source.rdev &&
    present.uid === wanted.uid &&
    present.gid === wanted.gid &&
    (present.mode & PERMISSION_BITS) === wanted.mode
  );
}

class HostDeviceNodes implements DeviceNodes {
  readonly #runner: ProcessRunner;

  constructor(runner: ProcessRunner) {
    this.#runner = runner;
  }

  async ensureCopy(copy: DeviceCopy): Promise<CopyResult> {
    const source = await statIfExists(copy.source);
    const type = deviceType(source);
    try {
      if (source === undefined || type === undefined) {
        await rm(copy.path, { force: true });
        return "removed";
      }
      if (matchesCopy(await statIfExists(copy.path), source, copy)) return "unchanged";
      await makeDirectory(dirname(copy.path));
      await this.#make(copy, [type, ...deviceNumbersOf(source).map(String)]);
      return "made";
    } catch (error) {
      throw toFileError(error, "copy device", copy.path);
    }
  }

  /** Replaces the device node atomically, because a container runtime may open it at any time. */
  async #make({ path, uid, gid, mode }: DeviceCopy, device: readonly string[]): Promise<void> {
    const temporary = `${path}.new`;
    const program = "mknod";
    await rm(temporary, { force: true });
    const argv = [program, "-m", mode.toString(8), temporary, ...device] as const;
    const { exitCode, stderr } = await this.#runner.run({ argv, timeoutMs: TIMEOUT_MS });
    if (exitCode !== 0) {
      throw new AppError("OS_PROGRAM_FAILED", { program, exitCode, stderr: stderr.trim() });
    }
    await chown(temporary, uid, gid);
    await rename(temporary, path);
  }
}

async function makeDirectory(path: string): Promise<void> {
  await mkdir(path, { recursive: true, mode: DIRECTORY_MODE });
  await chmod(path, DIRECTORY_MODE); // Restores the permissions that the umask removed.
}

/** Creates the adapter. The process must be permitted to create device nodes and to change owners. */
export function createDeviceNodes({ runner }: { readonly runner: ProcessRunner }): DeviceNodes {
  return new HostDeviceNodes(runner);
}
