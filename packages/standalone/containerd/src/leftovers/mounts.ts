// SPDX-License-Identifier: Apache-2.0
import type { Files, ProcessRunner } from "@patchbay/core/interfaces";

const TIMEOUT_MS = 10_000;
/** Index of the mount point's column. Source: proc(5) mountinfo. */
const MOUNT_POINT_COLUMN = 4;

/** Decodes a path in which the kernel escapes spaces, tabs, newlines and backslashes as octal numbers. */
function decodePath(encoded: string): string {
  return encoded.replaceAll(/\\([0-7]{3})/g, (_whole, octal: string) =>
    String.fromCharCode(parseInt(octal, 8)),
  );
}

function parseMountPoints(mountinfo: string): readonly string[] {
  return mountinfo.split("\n").map((line) => decodePath(line.split(" ")[MOUNT_POINT_COLUMN] ?? ""));
}

/** Returns the mount points below a directory, innermost first. Source: proc(5) mountinfo. */
export function mountsBelow(mountinfo: string, directory: string): readonly string[] {
  return parseMountPoints(mountinfo)
    .filter((path) => path.startsWith(`${directory}/`))
    .reverse();
}

export function isMountPoint(mountinfo: string, directory: string): boolean {
  return parseMountPoints(mountinfo).includes(directory);
}

/** Unmounts all file systems below a directory, including those in use. Returns the mount points. */
export async function unmountBelow(
  { files, runner }: { readonly files: Files; readonly runner: ProcessRunner },
  directory: string,
): Promise<readonly string[]> {
  const mountinfo = (await files.readText("/proc/self/mountinfo")) ?? "";
  const paths = mountsBelow(mountinfo, directory);
  for (const path of paths) {
    await runner.run({ argv: ["umount", "--lazy", path], timeoutMs: TIMEOUT_MS });
  }
  return paths;
}
