// SPDX-License-Identifier: Apache-2.0
// Disks of launchers that run as the user of the tests. tests/contract/os/launcher-disks.test.ts has other users.
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { describeLauncherDisksContract } from "../testing/contracts/launcher-disks.ts";
import { createLauncherDisks } from "./launcher-disks.ts";

const POD = "pod-uid";
const UID = process.getuid?.() ?? 0;
let podsDir = "";
const inVolume = (name: string): string =>
  join(podsDir, POD, "volumes/kubernetes.io~empty-dir/disks", name);

function start(): void {
  podsDir = mkdtempSync(join(tmpdir(), "launcher-disks-"));
  mkdirSync(inVolume(""), { recursive: true });
}

function end(): void {
  rmSync(podsDir, { recursive: true, force: true });
}

function replace(file: string, bytes: string): void {
  createLauncherDisks({ podsDir, uid: UID }).replace(POD, file, Buffer.from(bytes));
}

beforeEach(start);
afterEach(end);

describeLauncherDisksContract("a file system", () => {
  end();
  start();
  return {
    disks: createLauncherDisks({ podsDir, uid: UID }),
    read: (_podUid, file) =>
      existsSync(inVolume(file)) ? readFileSync(inVolume(file), "utf8") : undefined,
    close: end,
  };
});

test("a disk is readable by its owner only, and replaces an earlier incomplete write", () => {
  writeFileSync(inVolume(".init.iso"), "half");
  replace("init.iso", "ours");
  expect(statSync(inVolume("init.iso")).mode & 0o7777).toBe(0o600);
  expect(readdirSync(inVolume(""))).toEqual(["init.iso"]);
});

test("replaces a link to a foreign file and does not follow it", () => {
  writeFileSync(join(podsDir, "foreign"), "theirs");
  for (const name of ["init.iso", ".init.iso"]) {
    symlinkSync(join(podsDir, "foreign"), inVolume(name));
  }
  replace("init.iso", "ours");
  expect(readFileSync(join(podsDir, "foreign"), "utf8")).toBe("theirs");
  expect(readFileSync(inVolume("init.iso"), "utf8")).toBe("ours");
});

test.each(["Init.iso", "-a", "a/b", "a_b"])("rejects the name %j", (file) => {
  expect(() => {
    replace(file, "ours");
  }).toThrow(expect.objectContaining({ code: "OS_PATH_REFUSED" }) as Error);
  expect(readdirSync(inVolume(""))).toEqual([]);
});

test("a failed write names the file", () => {
  mkdirSync(inVolume("init.iso"));
  expect(() => {
    replace("init.iso", "ours");
  }).toThrow(
    expect.objectContaining({
      code: "OS_FILE_FAILED",
      details: expect.objectContaining({
        call: "replace",
        path: `${POD}/volumes/kubernetes.io~empty-dir/disks/init.iso`,
      }) as object,
    }) as Error,
  );
});
