// SPDX-License-Identifier: Apache-2.0
// Processes that files of the machine name, by PID, start time and boot of the host.
import { isRunning, readBootId } from "@patchbay/os";
import type { Files } from "@patchbay/core/ports";
import { numberOf, readFields, textOf } from "../data-dir/json.ts";

/** Whether the process that the file names still runs; false without a file. */
export async function isRecordedRunning(files: Files, file: string): Promise<boolean> {
  const fields = await readFields(files, file);
  const process = { pid: numberOf(fields, "pid") ?? 0, startTime: textOf(fields, "startTime") };
  return textOf(fields, "bootId") === (await readBootId(files)) && isRunning(process);
}
