// SPDX-License-Identifier: Apache-2.0
// Is the machine still the one that something was written on, or was it started anew since?
import { AppError } from "@patchbay/core/errors";
import type { Files } from "@patchbay/core/ports";

/** Source: proc(5) */
const BOOT_ID = "/proc/sys/kernel/random/boot_id";

/**
 * The name of this boot of the machine, a UUID: pids, links and namespaces of another boot are not there any more.
 * @throws AppError with OS_FILE_FAILED where it is not told: without it one boot would pass for another.
 */
export async function readBootId(files: Files): Promise<string> {
  const text = await files.readText(BOOT_ID);
  if (text !== undefined) return text.trim();
  throw new AppError("OS_FILE_FAILED", {
    call: "read",
    path: BOOT_ID,
    reason: "it does not exist",
  });
}
