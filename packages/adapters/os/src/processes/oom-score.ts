// SPDX-License-Identifier: Apache-2.0
// Whom does the kernel end first when memory is short?
import { writeFile } from "node:fs/promises";
import { errnoOf, toFileError } from "../files/file-errors.ts";

/** From -1000, never, to 1000, first. Source: proc(5) oom_score_adj */
const FILE = "/proc/self/oom_score_adj";

/**
 * Sets the score of this process, which those that it starts inherit. Whether the kernel let it: a lower one needs
 * CAP_SYS_RESOURCE, which root of a container may not have.
 */
export async function setOomScore(score: number): Promise<boolean> {
  try {
    await writeFile(FILE, String(score));
    return true;
  } catch (error) {
    if (errnoOf(error) === "EACCES") return false;
    throw toFileError(error, "write", FILE);
  }
}
