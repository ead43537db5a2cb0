// SPDX-License-Identifier: Apache-2.0
// A machine that goes down removes only its own loop devices.
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createFiles, createProcessRunner } from "@patchbay/os";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { afterEach, beforeEach, expect, test } from "vitest";
import { buildPaths } from "../../../packages/standalone/supervisor/src/data-dir/paths.ts";
import { removeLoops } from "../../../packages/standalone/supervisor/src/host/leftovers.ts";

let directory = "";

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "patchbay loops-"));
});
afterEach(() => {
  for (const device of devicesHere()) execFileSync("losetup", ["--detach", device]);
  rmSync(directory, { recursive: true });
});

/** Devices over this test's files. */
function devicesHere(): readonly string[] {
  const argv = ["--list", "--noheadings", "--output", "NAME,BACK-FILE"];
  const lines = execFileSync("losetup", argv, { encoding: "utf8" }).split("\n");
  return lines
    .filter((line) => line.includes(`${directory}/`))
    .map((line) => line.split(" ")[0] ?? "");
}

/** A device over a new file below a machine's directory. */
function attach(machine: string): string {
  const claims = join(directory, machine, "claims");
  mkdirSync(claims, { recursive: true });
  const file = join(claims, "volume.img");
  writeFileSync(file, "");
  truncateSync(file, 2 ** 20);
  return execFileSync("losetup", ["--find", "--show", file], { encoding: "utf8" }).trim();
}

test("removes leftover loop devices and preserves other machines'", async () => {
  attach("machine");
  const other = attach("machine-2");
  const log = createFakeLogger();
  await removeLoops({
    files: createFiles(),
    runner: createProcessRunner(),
    log,
    bootId: "",
    paths: buildPaths(join(directory, "machine")),
  });
  expect(devicesHere()).toEqual([other]);
  expect(log.lines).toMatchObject([{ message: "removed a leftover loop device" }]);
});
