// SPDX-License-Identifier: Apache-2.0
// Is a process that was noted down still there, or has its pid become another's?
import { readFile } from "node:fs/promises";
import { errnoOf, isMissing, toFileError } from "../files/file-errors.ts";
import { signalGroup } from "./signal-group.ts";

/** Position of `starttime` among the fields that follow the command name. Source: proc(5), field 22. */
const START_TIME_INDEX = 22 - 3;

/** One process for ever: a pid is used again, together with its start time it is not. */
export interface ProcessName {
  readonly pid: number;
  /** Clock ticks since boot, decimal text. */
  readonly startTime: string;
}

/**
 * When the process was started, in clock ticks since boot as decimal text, or undefined when there is none.
 * Together with the pid it names one process, also after the pid was used again.
 */
export async function readProcessStartTime(pid: number): Promise<string | undefined> {
  try {
    const stat = await readFile(`/proc/${String(pid)}/stat`, "utf8");
    // The command name is in parentheses and may itself hold spaces and parentheses.
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[START_TIME_INDEX];
  } catch (error) {
    if (isMissing(error) || errnoOf(error) === "ESRCH") return undefined;
    throw toFileError(error, "read", `/proc/${String(pid)}/stat`);
  }
}

/** States of a process that has ended and is still in the table. Source: proc(5), field 3. */
const ENDED_STATES: readonly string[] = ["Z", "X"];

async function hasEnded(pid: number): Promise<boolean> {
  try {
    const stat = await readFile(`/proc/${String(pid)}/stat`, "utf8");
    return ENDED_STATES.includes(stat.charAt(stat.lastIndexOf(")") + 2));
  } catch {
    return true; // It went between two looks.
  }
}

/** Whether that very process runs; one that waits for its parent to notice its end does not. */
export async function isRunning(name: ProcessName): Promise<boolean> {
  const { pid, startTime } = name;
  if (startTime === "" || (await readProcessStartTime(pid)) !== startTime) return false;
  return !(await hasEnded(pid));
}

/** Sends a signal to that very process; SIGKILL goes to its whole group. Gone is success. */
export async function signalProcess(
  name: ProcessName,
  signal: "SIGTERM" | "SIGKILL",
): Promise<void> {
  if (!(await isRunning(name))) return;
  if (signal === "SIGKILL") {
    signalGroup(name.pid, signal);
    return;
  }
  try {
    process.kill(name.pid, signal);
  } catch (error) {
    if (errnoOf(error) !== "ESRCH") throw toFileError(error, "kill", String(name.pid));
  }
}
