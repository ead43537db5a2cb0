// SPDX-License-Identifier: Apache-2.0
// A machine for one test run, demo or benchmark, in a temporary directory. A killed run cannot clean up: its directory
// names its process, and the next run removes it.
import { execFileSync } from "node:child_process";
import {
  existsSync,
  lstatSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import {
  acquireFileLock,
  isRunning,
  readProcessStartTime,
  type FileLock,
  type ProcessName,
} from "@patchbay/os";
import { Machine } from "./machine.ts";
import { SecondNode } from "./second-node.ts";

const PREFIX = "patchbay-";
const OWNER = "owner.json";
/** In the data directory; `up` writes it first, and a purge removes it last. */
const SETTINGS = "standalone.json";
/** One run at a time removes what killed runs left: two that start together would stop the same machine. */
const CLEANUP_LOCK = "/run/patchbay-trials.lock";
const LOCK_RETRY_MS = 100;
/** 15 minutes: a machine takes at most five to stop. */
const LOCK_ATTEMPTS = 9000;

/** The process that will remove the directory; undefined for a foreign directory. */
function ownerOf(directory: string): ProcessName | undefined {
  try {
    // Ignores another user's files, because this runs as root.
    if (lstatSync(directory).uid !== process.getuid?.()) return undefined;
    return JSON.parse(readFileSync(join(directory, OWNER), "utf8")) as ProcessName;
  } catch {
    return undefined;
  }
}

function removeDirectory(directory: string): void {
  if (readFileSync("/proc/self/mounts", "utf8").includes(` ${directory} `)) {
    execFileSync("umount", [directory]);
  }
  rmSync(directory, { recursive: true, force: true });
}

/** Takes the machine down and removes its directory; returns the output of `down`. */
export function endTrial(machine: Machine): string {
  machine.close();
  const { dataDir } = machine;
  // Without its settings it has not begun to start, although its images may be there.
  const output = existsSync(join(dataDir, SETTINGS)) ? machine.patchbay("down", "--purge") : "";
  removeDirectory(dirname(dataDir));
  return output;
}

async function lockCleanup(): Promise<FileLock> {
  for (let attempt = 0; attempt < LOCK_ATTEMPTS; attempt += 1) {
    const outcome = acquireFileLock(CLEANUP_LOCK);
    if ("release" in outcome) return outcome;
    await delay(LOCK_RETRY_MS);
  }
  throw new Error(`another run has locked ${CLEANUP_LOCK} for 15 minutes`);
}

async function endAbandoned(root: string): Promise<void> {
  for (const name of readdirSync(tmpdir()).filter((entry) => entry.startsWith(PREFIX))) {
    const directory = join(tmpdir(), name);
    const owner = ownerOf(directory);
    if (owner === undefined || (await isRunning(owner))) continue;
    process.stdout.write(`${directory} is removed: process ${String(owner.pid)} left it\n`);
    const machine = new Machine({ root, dataDir: join(directory, "data") });
    await SecondNode.endAbandoned(machine);
    endTrial(machine);
  }
}

/**
 * A stopped machine in a new directory.
 *
 * @param root - the checkout of the executables
 * @param purpose - part of the directory's name; short, because socket paths are below it
 */
export async function openTrial(root: string, purpose: string): Promise<Machine> {
  const lock = await lockCleanup();
  try {
    await endAbandoned(root);
  } finally {
    lock.release();
  }
  const directory = mkdtempSync(join(tmpdir(), `${PREFIX}${purpose}-`));
  const { pid } = process;
  const owner: ProcessName = { pid, startTime: (await readProcessStartTime(pid)) ?? "" };
  writeFileSync(join(directory, OWNER), JSON.stringify(owner));
  return new Machine({ root, dataDir: join(directory, "data") });
}
