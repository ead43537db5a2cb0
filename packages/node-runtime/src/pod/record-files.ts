// SPDX-License-Identifier: Apache-2.0
// The small files in which pod-init and pod-shim tell about processes.
import type { ProcessName } from "@patchbay/os";
import type { Files } from "@patchbay/ports";

/** Reads a file `PID STARTTIME BOOT_ID`; a process of an earlier boot is none. */
export function parseIdentity(text: string | undefined, bootId: string): ProcessName | undefined {
  const [pid = "", startTime = "", boot = ""] = (text ?? "").trim().split(" ");
  return /^\d+$/.test(pid) && /^\d+$/.test(startTime) && boot === bootId
    ? { pid: Number(pid), startTime }
    : undefined;
}

/** Reads a file with an exit code. */
export async function readExitCode(files: Files, path: string): Promise<number | undefined> {
  const text = (await files.readText(path))?.trim() ?? "";
  return /^\d+$/.test(text) ? Number(text) : undefined;
}
