// SPDX-License-Identifier: Apache-2.0
// Which processes did a program start, also those that have left its group and its session, and how do they end?
// What a program starts inherits its environment: a variable in it is the mark. A process can only be born of one
// that carries the mark, so when a look at all processes finds none, none can come any more.
import { randomUUID } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { errnoOf } from "../files/file-errors.ts";

/** The environment variable that is the mark. */
const MARK = "PATCHBAY_PROCESS_FAMILY";
/** A process that was killed is gone in a moment; one that hangs in the kernel is not waited for. Milliseconds. */
const ROUND_MS = 10;
const ROUNDS_MAX = 200;

/** The mark of one run, which is found by the name of its family as well. */
export function newMark(family: string): string {
  return `${family}/${randomUUID()}`;
}

/** The environment with the mark. */
export function withMark(
  env: Readonly<Record<string, string>>,
  mark: string,
): Readonly<Record<string, string>> {
  return { ...env, [MARK]: mark };
}

async function isMarked(pid: string, mark: string): Promise<boolean> {
  try {
    const environment = `\0${await readFile(`/proc/${pid}/environ`, "latin1")}\0`;
    const own = `\0${MARK}=${Buffer.from(mark).toString("latin1")}`;
    return environment.includes(`${own}\0`) || environment.includes(`${own}/`);
  } catch {
    return false; // It has ended, or is a thread of the kernel.
  }
}

async function listMarked(mark: string): Promise<readonly number[]> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const marked = await Promise.all(pids.map((pid) => isMarked(pid, mark)));
  return pids.filter((_pid, index) => marked[index] === true).map(Number);
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch (error) {
    if (errnoOf(error) !== "ESRCH") throw error;
  }
}

/** Kills the processes that carry the mark, or a run's mark of that family, until none is left. */
export async function endMarked(mark: string): Promise<void> {
  for (let round = 0; round < ROUNDS_MAX; round += 1) {
    const marked = await listMarked(mark);
    if (marked.length === 0) return;
    for (const pid of marked) kill(pid);
    await sleep(ROUND_MS);
  }
}
