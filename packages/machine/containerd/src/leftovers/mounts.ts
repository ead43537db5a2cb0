// SPDX-License-Identifier: Apache-2.0
// What is mounted below a directory, and how is it taken away?
import type { Files, ProcessRunner } from "@patchbay/core/ports";

const TIMEOUT_MS = 10_000;
/** Position of the mount point. Source: proc(5) mountinfo. */
const MOUNT_POINT = 4;

/** As the kernel writes a path: spaces, tabs, line ends and backslashes as octal numbers. */
function readPath(written: string): string {
  return written.replaceAll(/\\([0-7]{3})/g, (_whole, octal: string) =>
    String.fromCharCode(parseInt(octal, 8)),
  );
}

function mountPoints(mountinfo: string): readonly string[] {
  return mountinfo.split("\n").map((line) => readPath(line.split(" ")[MOUNT_POINT] ?? ""));
}

/** Mount points below a directory, the innermost first. Source: proc(5) mountinfo. */
export function mountsBelow(mountinfo: string, directory: string): readonly string[] {
  return mountPoints(mountinfo)
    .filter((path) => path.startsWith(`${directory}/`))
    .reverse();
}

/** Whether something is mounted at a directory. Source: proc(5) mountinfo. */
export function isMountPoint(mountinfo: string, directory: string): boolean {
  return mountPoints(mountinfo).includes(directory);
}

/** Takes away what is mounted below a directory, also where it is in use; returns what that was. */
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
