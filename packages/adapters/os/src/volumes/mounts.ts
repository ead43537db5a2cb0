// SPDX-License-Identifier: Apache-2.0
// What is mounted in this process's mount namespace? Source: proc(5), /proc/self/mountinfo.
import { readFile } from "node:fs/promises";

/** Characters that the kernel writes as an octal number. */
function unescape(field: string): string {
  return field.replace(/\\([0-7]{3})/g, (_, octal: string) =>
    String.fromCharCode(Number.parseInt(octal, 8)),
  );
}

/** Mount points at `path` and below it in a text of mountinfo, in the order in which they were mounted. Pure. */
export function mountsAt(mountinfo: string, path: string): readonly string[] {
  return mountinfo
    .split("\n")
    .map((line) => unescape(line.split(" ")[4] ?? ""))
    .filter((point) => point === path || point.startsWith(`${path}/`));
}

/** Mount points at `path` and below it, in the order in which they were mounted. */
export async function listMounts(path: string): Promise<readonly string[]> {
  return mountsAt(await readFile("/proc/self/mountinfo", "utf8"), path);
}
