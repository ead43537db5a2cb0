// SPDX-License-Identifier: Apache-2.0
// What goes with a purge where the data directory is a disk of its own, and where an earlier purge has died? Needs root.
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
/** So many that a purge takes a while: 0.8 s. */
const FILES = 100_000;
/** Names of one file. Source: EXT4_LINK_MAX of Linux is 65,000. */
const NAMES = 50_000;

let parent: string;
let dataDir: string;
const said: string[] = [];

beforeEach(() => {
  parent = mkdtempSync(join(tmpdir(), "patchbay-purge-"));
  dataDir = join(parent, "data");
  mkdirSync(dataDir);
});

afterEach(() => {
  said.length = 0;
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
  await down({ dataDir, purge: true, print: (line) => said.push(line) });
}

test("of a mount point the content goes, and the mount stays, with what is the file system's", async () => {
  execFileSync("mount", ["-t", "tmpfs", "none", dataDir]);
  fill();
  await purge();
  expect(readdirSync(dataDir)).toEqual(["lost+found"]);
  expect(readFileSync("/proc/self/mounts", "utf8")).toContain(` ${dataDir} tmpfs `);
  expect(said.at(-1)).toBe(`${dataDir} is empty; it is a mount point and is not deleted`);
});

test("a purge that died halfway is finished by the next one", async () => {
  fill();
  const images = join(dataDir, "images");
  // Another name of a file is made in 13 µs, and a file, also an empty one, was seen to take 130 to 600.
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
  // On a busy machine it may have been quicker than this process.
  const left = existsSync(dataDir) ? readdirSync(dataDir) : ["standalone.json"];
  expect(left).toContain("standalone.json");
  if (existsSync(dataDir)) await purge();
  expect(existsSync(dataDir)).toBe(false);
});
