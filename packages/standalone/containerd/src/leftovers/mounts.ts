// SPDX-License-Identifier: Apache-2.0
import type { Files, ProcessRunner } from "@patchbay/core/interfaces";

const TIMEOUT_MS = 10_000;
/** Index of the mount point's column. Source: proc(5) mountinfo. */
const MOUNT_POINT_COLUMN = 4;

/** Decodes a path, in which the kernel writes spaces, tabs, newlines and backslashes as octal numbers. */
function decodePath(encoded: string): string {
  return encoded.replaceAll(/\\([0-7]{3})/g, (_whole, octal: string) =>
    String.fromCharCode(parseInt(octal, 8)),
  );
}

function mountPoints(mountinfo: string): readonly string[] {
  return mountinfo.split("\n").map((line) => decodePath(line.split(" ")[MOUNT_POINT_COLUMN] ?? ""));
}

/** Returns the mount points below a directory, innermost first. Source: proc(5) mountinfo. */
export function mountsBelow(mountinfo: string, directory: string): readonly string[] {
  return mountPoints(mountinfo)
    .filter((path) => path.startsWith(`${directory}/`))
    .reverse();
}

/** Returns whether something is mounted at the directory. */
export function isMountPoint(mountinfo: string, directory: string): boolean {
  return mountPoints(mountinfo).includes(directory);
}

/** Unmounts everything below a directory, even if it is in use. Returns the mount points. */
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
