// SPDX-License-Identifier: Apache-2.0
// How is a whole process group told to end?
import { errnoOf } from "../files/file-errors.ts";

/** Sends a signal to a whole process group; a group that is gone is success. */
export function signalGroup(groupId: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-groupId, signal);
  } catch (error) {
    if (errnoOf(error) !== "ESRCH") throw error;
  }
}
