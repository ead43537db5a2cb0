// SPDX-License-Identifier: Apache-2.0
// Disks in volumes of a real file system with a hostile launcher.
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
import { createLauncherDisks } from "@patchbay/os";
import { describeLauncherDisksContract } from "@patchbay/os/testing";
import { afterEach, beforeEach, expect, test } from "vitest";

const UID = 107;
const POD = "pod-uid";
let podsDir = "";

function volumeOf(podUid: string): string {
  return join(podsDir, podUid, "volumes/kubernetes.io~empty-dir/disks");
}

function start(): void {
  podsDir = mkdtempSync(join(tmpdir(), "patchbay-disks-"));
  mkdirSync(volumeOf(POD), { recursive: true });
}

function end(): void {
  rmSync(podsDir, { recursive: true, force: true });
}

function replace(file = "init.iso"): void {
  createLauncherDisks({ podsDir, uid: UID }).replace(POD, file, Buffer.from("ours"));
}

beforeEach(start);
afterEach(end);

describeLauncherDisksContract("a machine", () => {
  end();
  start();
  return {
    disks: createLauncherDisks({ podsDir, uid: UID }),
    read: (podUid, file) => {
      const path = join(volumeOf(podUid), file);
      return existsSync(path) ? readFileSync(path, "utf8") : undefined;
    },
    close: end,
  };
});

test("a disk belongs to its launcher only, and nothing is left beside it", () => {
  replace();
  const { uid, gid, mode } = statSync(join(volumeOf(POD), "init.iso"));
  expect({ uid, gid, mode: mode & 0o7777 }).toEqual({ uid: UID, gid: UID, mode: 0o600 });
  expect(readdirSync(volumeOf(POD))).toEqual(["init.iso"]);
});

test.each(["init.iso", ".init.iso"])("preserves the target of a link named %s", (name) => {
  const victim = join(podsDir, "victim");
  writeFileSync(victim, "theirs");
  symlinkSync(victim, join(volumeOf(POD), name));
  replace();
  expect(readFileSync(victim, "utf8")).toBe("theirs");
  expect(readFileSync(join(volumeOf(POD), "init.iso"), "utf8")).toBe("ours");
});

test("does not follow a volume that is a link", () => {
  const elsewhere = join(podsDir, "elsewhere");
  mkdirSync(elsewhere);
  rmSync(volumeOf(POD), { recursive: true });
  symlinkSync(elsewhere, volumeOf(POD));
  expect(() => {
    replace();
  }).toThrow(expect.objectContaining({ code: "OS_FILE_FAILED" }) as Error);
  expect(readdirSync(elsewhere)).toEqual([]);
});

test("reports a directory in its place as the launcher's fault", () => {
  mkdirSync(join(volumeOf(POD), "init.iso"));
  expect(() => {
    replace();
  }).toThrow(expect.objectContaining({ code: "OS_FILE_FAILED" }) as Error);
});
