// SPDX-License-Identifier: Apache-2.0
// Loop devices over files of a machine's claims, which outlive the programs that made them.
import type { CleaningDeps } from "./bridges.ts";

/** Deadline of losetup, milliseconds. */
const TIMEOUT_MS = 10_000;

/**
 * Devices whose file is below the directory and that stay until they are taken away, in what `losetup --raw` lists as names,
 * AUTOCLEAR and files. Others go with their last user, and may be somebody else's by the time that they were named. Pure.
 */
export function loopsBelow(listed: string, directory: string): readonly string[] {
  return listed.split("\n").flatMap((line) => {
    const [device = "", autoclear, ...file] = line.trimStart().split(" ");
    // In raw output blanks and the like are written as \x20.
    const path = file
      .join(" ")
      .replace(/\\x([0-9a-f]{2})/g, (_, code: string) =>
        String.fromCharCode(Number.parseInt(code, 16)),
      );
    return autoclear === "0" && path.startsWith(`${directory}/`) ? [device] : [];
  });
}

/** Takes them away; a device that somebody still has goes with its last user. */
export async function removeLoops({ runner, paths, log }: CleaningDeps): Promise<void> {
  const list = [
    "losetup",
    "--list",
    "--noheadings",
    "--raw",
    "--output",
    "NAME,AUTOCLEAR,BACK-FILE",
  ] as const;
  const { stdout } = await runner.run({ argv: list, timeoutMs: TIMEOUT_MS });
  for (const device of loopsBelow(stdout, paths.dataDir)) {
    log.warn("removed a leftover loop device", { path: device });
    await runner.run({ argv: ["losetup", "--detach", device], timeoutMs: TIMEOUT_MS });
  }
}
