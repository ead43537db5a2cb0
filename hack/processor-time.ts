// SPDX-License-Identifier: Apache-2.0
// Processor time of children, and of the whole machine. A child's time includes the processes that it waited for;
// containers and daemons are children of other processes, so only the machine's time includes them.
import { readFileSync } from "node:fs";

/** USER_HZ, the unit of process times on every Linux machine. */
const TICKS_IN_SECOND = 100;
/** Indexes of cutime and cstime after the name, which may contain blanks. Source: proc_pid_stat(5), fields 16 and 17. */
const FIELDS = [13, 14] as const;

function secondsOfChildren(): number {
  const stat = readFileSync("/proc/self/stat", "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return FIELDS.reduce((sum, at) => sum + Number(fields[at]), 0) / TICKS_IN_SECOND;
}

let counted = secondsOfChildren();

/**
 * Returns the processor time of the child that has just ended, in seconds. Call it immediately after each child ends,
 * because the kernel reports one sum for all children.
 */
export function secondsOfEnded(): number {
  const before = counted;
  counted = secondsOfChildren();
  return counted - before;
}

/** Fields of the line `cpu`: user, nice, system, irq and softirq. Excludes idle, iowait and steal. Source: proc_stat(5). */
const BUSY_FIELDS = [1, 2, 3, 6, 7] as const;

/** Returns the processor time of all processes of the machine since boot, in seconds. */
export function secondsOfMachine(): number {
  const [line = ""] = readFileSync("/proc/stat", "utf8").split("\n", 1);
  const fields = line.split(/\s+/);
  return BUSY_FIELDS.reduce((sum, at) => sum + Number(fields[at]), 0) / TICKS_IN_SECOND;
}
