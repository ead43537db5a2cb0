// SPDX-License-Identifier: Apache-2.0
// Which processes did a program start, also those that have left its group and its session, and how do they end?
// What a program starts inherits its environment: a variable in it is the mark. A process can only be born of one
// that carries the mark, so when a look at all processes finds none, none can come any more.
import { randomUUID } from "node:crypto";
import { close, open, read } from "node:fs";
import { readdir } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
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

/** More than most environments have, bytes; a longer one is read in parts. */
const PART_BYTES = 65_536;
const [openFile, readInto, closeFile] = [promisify(open), promisify(read), promisify(close)];

/**
 * A file of /proc as text of a character for each byte. `readFile` takes 64 KiB anew for each, since they tell no size: with a
 * look at hundreds of processes a second, half of the processor time went into collecting that.
 */
async function readWith(buffer: Buffer, path: string): Promise<string> {
  const fd = await openFile(path, "r");
  try {
    let text = "";
    for (;;) {
      const { bytesRead } = await readInto(fd, buffer, 0, buffer.length, null);
      text += buffer.toString("latin1", 0, bytesRead);
      if (bytesRead < buffer.length) return text;
    }
  } finally {
    await closeFile(fd);
  }
}

async function readMark(pid: string, buffer: Buffer): Promise<string | undefined> {
  try {
    const environment = `\0${await readWith(buffer, `/proc/${pid}/environ`)}`;
    const from = environment.indexOf(`\0${MARK}=`);
    if (from < 0) return undefined;
    const value = environment.slice(from + MARK.length + 2).split("\0", 1);
    return Buffer.from(value[0] ?? "", "latin1").toString();
  } catch {
    return undefined; // It has ended, or is a thread of the kernel.
  }
}

async function listMarked(isWanted: (mark: string) => boolean): Promise<readonly number[]> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const buffer = Buffer.allocUnsafe(PART_BYTES);
  const marked: number[] = [];
  // One after another: they share the buffer, and a look has time.
  for (const pid of pids) {
    const mark = await readMark(pid, buffer);
    if (mark !== undefined && isWanted(mark)) marked.push(Number(pid));
  }
  return marked;
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch (error) {
    if (errnoOf(error) !== "ESRCH") throw error;
  }
}

async function endAll(isWanted: (mark: string) => boolean): Promise<void> {
  for (let round = 0; round < ROUNDS_MAX; round += 1) {
    const marked = await listMarked(isWanted);
    if (marked.length === 0) return;
    for (const pid of marked) kill(pid);
    await sleep(ROUND_MS);
  }
}

/** Kills the processes that carry the mark, or a run's mark of that family, until none is left. */
export async function endMarked(mark: string): Promise<void> {
  await endAll((found) => found === mark || found.startsWith(`${mark}/`));
}

/** From one look to the next, milliseconds: each reads of all processes of the machine. */
const LOOK_EVERY_MS = 1000;

/** Marks of runs that have ended since the last look began. */
let ended = new Set<string>();
/** The look that is under way, or the pause behind it. */
let looking: Promise<void> | undefined;

async function look(): Promise<void> {
  while (ended.size > 0) {
    const marks = ended;
    ended = new Set();
    await endAll((mark) => marks.has(mark));
    await sleep(LOOK_EVERY_MS, undefined, { ref: false });
  }
}

/**
 * Kills what carries the mark of a run that has ended well, within some seconds: one look is for all runs that have ended, since
 * most leave nothing. What it leaves to a successor of this process {@link endMarked} ends.
 */
export function endSoon(mark: string): void {
  ended.add(mark);
  looking ??= look()
    .catch(() => undefined) // there is no /proc: nothing can be found either
    .finally(() => {
      looking = undefined;
    });
}
