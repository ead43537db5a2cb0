// SPDX-License-Identifier: Apache-2.0
// What is removed from the host of a machine that is down, on fake files and programs.
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Command, CommandResult } from "@patchbay/core/interfaces";
import { createFakeFiles, createFakeProcessRunner } from "@patchbay/os/testing";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { buildPaths } from "../data-dir/paths.ts";
import { buildCgroupRoot } from "../runtime/own-containerd.ts";
import { lockBackup, removeLeftovers, thawLeftClaims } from "./leftovers.ts";

const PATHS = buildPaths("/d");
const GROUP = `/sys/fs/cgroup${buildCgroupRoot(PATHS)}`;

let files = createFakeFiles();
let ran: string[];
beforeEach(async () => {
  files = createFakeFiles();
  ran = [];
  const mountinfo = [
    "25 1 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw",
    "40 1 0:30 / /d/pods/a/volume rw - tmpfs tmpfs rw",
    "41 1 0:31 / /elsewhere rw - tmpfs tmpfs rw",
  ];
  await files.writeAtomic("/proc/self/mountinfo", mountinfo.join("\n"));
  await files.writeAtomic(`${GROUP}/pod/cgroup.procs`, "");
  const record = { name: "br-blue", index: 7, bootId: "boot" };
  await files.writeAtomic(`${PATHS.netAgent}/bridges/br-blue.json`, JSON.stringify(record));
});

/** Removes all; a program that fails is `broken`. */
async function remove(broken?: string) {
  const run = ({ argv }: Command): Partial<CommandResult> => {
    if (argv[0] === broken) throw new Error(`${broken} is broken`);
    ran.push(argv.join(" "));
    if (argv[0] === "losetup") return { stdout: "/dev/loop7 0 /d/claims/a/volume.img\n" };
    if (!argv.includes("show")) return {};
    return { stdout: '[{"ifname":"br-blue","ifindex":7},{"ifname":"br-red","ifindex":8}]' };
  };
  const names = ["ip", "losetup", "umount", "find", "rmdir"];
  const runner = createFakeProcessRunner(Object.fromEntries(names.map((name) => [name, run])));
  const log = createFakeLogger();
  await removeLeftovers({ files, runner, log, paths: PATHS, bootId: "boot" });
  return log.lines.map(({ level, fields }) => [level, fields["path"] ?? fields["reason"]]);
}

const WANTED = [
  "umount --lazy /d/pods/a/volume",
  "losetup --detach /dev/loop7",
  `find ${GROUP} -depth -type d -exec rmdir {} ;`,
  "ip link del br-blue type bridge",
];

test("removes only the machine's own mounts, loop devices, cgroups and bridges", async () => {
  const lines = await remove();
  expect(ran.filter((line) => WANTED.includes(line))).toEqual(WANTED);
  expect(ran.join("\n")).not.toMatch(/elsewhere|br-red/);
  expect(lines).toContainEqual(["warn", "/d/pods/a/volume"]);
});

test.each([
  { broken: "umount", missing: 0 },
  { broken: "losetup", missing: 1 },
  { broken: "find", missing: 2 },
  { broken: "ip", missing: 3 },
])("logs a failure of $broken and continues", async ({ broken, missing }) => {
  const lines = await remove(broken);
  expect(lines).toContainEqual(["warn", `${broken} is broken`]);
  expect(ran.filter((line) => WANTED.includes(line))).toEqual(
    WANTED.filter((_line, index) => index !== missing),
  );
});

describe("claims that a killed backup left frozen", () => {
  /** Runs fsfreeze on a machine with a mounted claim; it fails with this exit code. */
  async function frozen(exitCode: number) {
    const dataDir = mkdtempSync(join(tmpdir(), "frozen-"));
    onTestFinished(() => {
      rmSync(dataDir, { recursive: true });
    });
    const paths = buildPaths(dataDir);
    mkdirSync(paths.run);
    const mount = join(paths.claims, "a", "mount");
    const mountinfo = `40 1 7:0 / ${mount} rw - ext4 /dev/loop0 rw`;
    await files.writeAtomic("/proc/self/mountinfo", mountinfo);
    for (const name of ["a", "b"])
      await files.writeAtomic(join(paths.claims, name, "volume.img"), "");
    const runner = createFakeProcessRunner({
      fsfreeze: ({ argv }) => {
        ran.push(argv.join(" "));
        return { exitCode };
      },
    });
    const log = createFakeLogger();
    return { deps: { files, runner, log, paths }, want: `fsfreeze --unfreeze ${mount}` };
  }

  test.each([
    { name: "are thawed", exitCode: 0 },
    { name: "are left alone if they are not frozen", exitCode: 1 },
  ])("$name", async ({ exitCode }) => {
    const { deps, want } = await frozen(exitCode);
    await thawLeftClaims(deps);
    expect(ran).toEqual([want]);
    expect(deps.log.lines).toEqual([]);
    await thawLeftClaims(deps);
    expect(ran).toEqual([want, want]);
  });

  test("stay frozen while a backup runs", async () => {
    const { deps } = await frozen(0);
    const lock = lockBackup(deps.paths);
    await thawLeftClaims(deps);
    expect(ran).toEqual([]);
    if ("release" in lock) lock.release();
  });

  test("do not prevent the start if they cannot be thawed", async () => {
    const { deps } = await frozen(0);
    await thawLeftClaims({ ...deps, runner: createFakeProcessRunner({}) });
    expect(deps.log.lines).toMatchObject([{ message: "frozen claims cannot be thawed" }]);
  });
});
