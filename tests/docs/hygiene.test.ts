// SPDX-License-Identifier: Apache-2.0
// Is there anything in the repository that belongs to one machine or one registry only?
import { existsSync, statSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { findMentions, listFiles, printMention, readText, ROOT } from "./documents.ts";

const MAX_BYTES = 2_000_000;

const files = listFiles()
  .map((path) => ({ path, full: join(ROOT, path) }))
  .filter(({ full }) => existsSync(full) && statSync(full).isFile())
  .filter(({ full }) => statSync(full).size < MAX_BYTES)
  .map(({ path }) => ({ path, text: readText(path) }));

/** Written in parts, so that this file does not hold what it looks for. */
const MACHINE_PATH = new RegExp(
  `((?<![\\w.])/(?:${["wo" + "rk", "ho" + "me", "Us" + "ers"].join("|")})/[\\w.-]+)`,
  "g",
);
const REGISTRY = new RegExp(
  `\\b((?:reg` + `istry|mir` + `ror|artifactory|nexus|pro` + `xy)\\.[a-z][\\w-]*\\.[a-z]{2,})`,
  "gi",
);

test("no file names a directory of somebody's machine", () => {
  expect(findMentions(files, MACHINE_PATH).map(printMention)).toEqual([]);
});

test("no file names the host of a package registry", () => {
  expect(findMentions(files, REGISTRY).map(printMention)).toEqual([]);
});

test("the lock file holds no download address", () => {
  const lock = files.filter(({ path }) => path === "package-lock.json");
  expect(lock).toHaveLength(1);
  expect(findMentions(lock, /"resolved": "([a-z+]+:.*)"/g).map(printMention)).toEqual([]);
});
