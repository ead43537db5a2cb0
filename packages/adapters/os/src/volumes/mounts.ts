// SPDX-License-Identifier: Apache-2.0
import { readFile } from "node:fs/promises";
import { AppError } from "@patchbay/base";
import type { ProcessRunner } from "@patchbay/core/interfaces";

const LOSETUP_TIMEOUT_MS = 60_000;

interface LoopDevice {
  readonly name: string;
  /** Whether the loop device remains after its last use, until it is detached explicitly. Source: losetup(8), AUTOCLEAR */
  readonly isPermanent: boolean;
}

/** @throws AppError with OS_PROGRAM_FAILED, OS_PROGRAM_MISSING, OS_TIMED_OUT */
export async function listLoopDevices(
  runner: ProcessRunner,
  file: string,
): Promise<readonly LoopDevice[]> {
  const program = "losetup";
  const list = ["--list", "--noheadings", "--raw", "--output", "NAME,AUTOCLEAR"];
  const argv = [program, ...list, "--associated", file] as const;
  const { exitCode, stdout, stderr } = await runner.run({ argv, timeoutMs: LOSETUP_TIMEOUT_MS });
  if (exitCode !== 0) {
    throw new AppError("OS_PROGRAM_FAILED", { program, exitCode, stderr: stderr.trim() });
  }
  const lines = stdout.split("\n").filter((line) => line !== "");
  return lines.map((line) => {
    const [name = "", autoclear] = line.split(" ");
    return { name, isPermanent: autoclear === "0" };
  });
}

/** Decodes characters that the kernel escapes as octal numbers. Source: proc(5), /proc/self/mountinfo */
function decodeField(field: string): string {
  return field.replace(/\\([0-7]{3})/g, (_, octal: string) =>
    String.fromCharCode(Number.parseInt(octal, 8)),
  );
}

/** Returns the mount points at and below `path`, in mount order. */
export function parseMounts(mountinfo: string, path: string): readonly string[] {
  return mountinfo
    .split("\n")
    .map((line) => decodeField(line.split(" ")[4] ?? ""))
    .filter((point) => point === path || point.startsWith(`${path}/`));
}

/** Returns the mount points at and below `path` whose file systems became read-only, for example because their journal could not be written. */
export function parseReadOnlyMounts(mountinfo: string, path: string): readonly string[] {
  const lines = mountinfo.split("\n").filter((line) => {
    const superOptions = line.split(" ").at(-1)?.split(",") ?? [];
    return superOptions.includes("ro") || superOptions.includes("emergency_ro");
  });
  return parseMounts(lines.join("\n"), path);
}

export async function listReadOnlyMounts(path: string): Promise<readonly string[]> {
  return parseReadOnlyMounts(await readFile("/proc/self/mountinfo", "utf8"), path);
}

export async function listMounts(path: string): Promise<readonly string[]> {
  return parseMounts(await readFile("/proc/self/mountinfo", "utf8"), path);
}
