// SPDX-License-Identifier: Apache-2.0
import type { Files, ProcessRunner } from "@patchbay/core/interfaces";

const TIMEOUT_MS = 10_000;
/** Column of the mount point. Source: proc(5) mountinfo. */
const MOUNT_POINT = 4;

/** The kernel writes spaces, tabs, newlines and backslashes as octal numbers. */
function decodePath(encoded: string): string {
  return encoded.replaceAll(/\\([0-7]{3})/g, (_whole, octal: string) =>
    String.fromCharCode(parseInt(octal, 8)),
  );
}

function mountPoints(mountinfo: string): readonly string[] {
  return mountinfo.split("\n").map((line) => decodePath(line.split(" ")[MOUNT_POINT] ?? ""));
}

/** Innermost first. Source: proc(5) mountinfo. */
export function mountsBelow(mountinfo: string, directory: string): readonly string[] {
  return mountPoints(mountinfo)
    .filter((path) => path.startsWith(`${directory}/`))
    .reverse();
}

/** Whether something is mounted at the directory. */
export function isMountPoint(mountinfo: string, directory: string): boolean {
  return mountPoints(mountinfo).includes(directory);
}

/** Unmounts everything below a directory, even if it is in use; returns the mount points. */
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
