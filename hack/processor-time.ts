// SPDX-License-Identifier: Apache-2.0
// How long did a child compute? With all the processes that it, and they in turn, had waited for: containers and daemons
// are nobody's children, and are not counted.
import { readFileSync } from "node:fs";

/** Of USER_HZ, in which Linux tells of processes on each of its machines. */
const TICKS_IN_SECOND = 100;
/** Of cutime and cstime after the name, which may hold blanks. Source: proc_pid_stat(5), fields 16 and 17. */
const FIELDS = [13, 14] as const;

function secondsOfChildren(): number {
  const stat = readFileSync("/proc/self/stat", "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return FIELDS.reduce((sum, at) => sum + Number(fields[at]), 0) / TICKS_IN_SECOND;
}

let counted = secondsOfChildren();

/** Processor time of the child that has just ended, seconds. To be called as soon as one ends, whichever: for each there is one sum. */
export function secondsOfEnded(): number {
  const before = counted;
  counted = secondsOfChildren();
  return counted - before;
}
