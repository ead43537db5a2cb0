// SPDX-License-Identifier: Apache-2.0
// A purge of a data directory on its own disk, and after an interrupted purge. Needs root.
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import {
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { down } from "@patchbay/supervisor";
import { eventually } from "@patchbay/support";
import { afterEach, beforeEach, expect, test } from "vitest";

const ROOT = join(import.meta.dirname, "../../..");
/** Enough that a purge takes a while: 0.8 s. */
const FILES = 100_000;
/** Hard links of one file. Source: EXT4_LINK_MAX of Linux is 65,000. */
const NAMES = 50_000;

let parent: string;
let dataDir: string;
const output: string[] = [];

beforeEach(() => {
  parent = mkdtempSync(join(tmpdir(), "patchbay-purge-"));
  dataDir = join(parent, "data");
  mkdirSync(dataDir);
});

afterEach(() => {
  output.length = 0;
  try {
    execFileSync("umount", [dataDir], { stdio: "ignore" });
  } catch {
    // Only one of the tests mounts anything.
  }
  rmSync(parent, { recursive: true });
});

function fill(): void {
  for (const name of ["images", "volumes", "lost+found"]) mkdirSync(join(dataDir, name));
  writeFileSync(join(dataDir, "standalone.json"), '{"kind":"PatchbayStandalone"}');
}

async function purge(): Promise<void> {
  await down({ dataDir, purge: true, print: (line) => output.push(line) });
}

test("purges the content of a mount point, and preserves the mount and the file system's own files", async () => {
  execFileSync("mount", ["-t", "tmpfs", "none", dataDir]);
  fill();
  await purge();
  expect(readdirSync(dataDir)).toEqual(["lost+found"]);
  expect(readFileSync("/proc/self/mounts", "utf8")).toContain(` ${dataDir} tmpfs `);
  expect(output.at(-1)).toBe(`${dataDir} is empty; it is a mount point and is not deleted`);
});

test("the next purge completes one that died", async () => {
  fill();
  const images = join(dataDir, "images");
  // A hard link takes 13 µs, a new file, even empty, 130 to 600 µs.
  for (let number = 0; number < FILES; number += 1) {
    const of = join(images, String(number - (number % NAMES)));
    const name = join(images, String(number));
    if (of === name) writeFileSync(name, "");
    else linkSync(of, name);
  }
  const argv = ["--data-dir", dataDir, "down", "--purge"];
  const child = spawn(join(ROOT, "node_modules/.bin/patchbay"), argv, { stdio: "ignore" });
  const closed = once(child, "close");
  await eventually(() => !existsSync(images) || readdirSync(images).length < FILES, {
    withinMs: 30_000,
  });
  child.kill("SIGKILL");
  await closed;
  // On a busy machine it may have finished before this process.
  const remaining = existsSync(dataDir) ? readdirSync(dataDir) : ["standalone.json"];
  expect(remaining).toContain("standalone.json");
  if (existsSync(dataDir)) await purge();
  expect(existsSync(dataDir)).toBe(false);
});
