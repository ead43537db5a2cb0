// SPDX-License-Identifier: Apache-2.0
// Which programs are run for a claim, with fake programs: mounts themselves need root, tests/contract/os has them.
import {
  existsSync,
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
import type { Command, CommandResult } from "@patchbay/core/interfaces";
import { createFakeProcessRunner } from "@patchbay/os/testing";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createClaimDisk, formatArguments } from "./claim-disk.ts";

const MEBIBYTE = 2 ** 20;
/** A mount point of every Linux machine; it is root's. The programs that would change it are fakes. */
const MOUNTED = "/proc";
const WALK = "find /proc -xdev -mindepth 1";
let directory = "";
const at = (name: string): string => join(directory, name);

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "patchbay-claims-"));
});
afterEach(() => {
  rmSync(directory, { recursive: true, force: true });
});

/** What programs answer, by name; all others succeed without output. */
type Answers = Readonly<Record<string, Partial<CommandResult>>>;

function machine(answers: Answers = {}) {
  const names = ["mke2fs", "fallocate", "e2fsck", "losetup", "mkdir", "mount", "umount"];
  const programs = [...names, "find", "chmod", "chgrp"].map(
    (name) => [name, () => answers[name] ?? {}] as const,
  );
  const runner = createFakeProcessRunner(Object.fromEntries(programs));
  const toLine = ({ argv }: Command): string => argv.join(" ").replaceAll(directory, "");
  return {
    disk: createClaimDisk({ runner }),
    commands: runner.commands,
    lines: () => runner.commands.map(toLine),
  };
}

const LIST = "losetup --list --noheadings --raw --output NAME,AUTOCLEAR --associated /v.img";

describe("creating the file of a claim", () => {
  test.each([
    { name: "files", kind: "files", sizeBytes: 64 * MEBIBYTE, bytes: 76_197_888 },
    { name: "a device", kind: "device", sizeBytes: 5 * MEBIBYTE, bytes: 5 * MEBIBYTE },
  ] as const)("creates a sparse file of its size for $name", async ({ kind, sizeBytes, bytes }) => {
    writeFileSync(at("v.img.tmp"), "left by a process that died");
    const { disk, lines } = machine();
    await disk.make(at("v.img"), { kind, sizeBytes });
    const { size, blocks, mode } = statSync(at("v.img"));
    expect(size).toBe(bytes);
    expect(blocks).toBe(0);
    expect(mode & 0o777).toBe(0o600);
    expect(readdirSync(directory)).toEqual(["v.img"]);
    const format = ["mke2fs", ...formatArguments({ kind, sizeBytes }), "/v.img.tmp"].join(" ");
    const allocate = "fallocate --posix --length 7503872 /v.img.tmp";
    expect(lines()).toEqual(kind === "files" ? [format, allocate] : []);
  });

  test("does nothing if the file exists", async () => {
    writeFileSync(at("v.img"), "data");
    const { disk, lines } = machine();
    await disk.make(at("v.img"), { kind: "files", sizeBytes: 1 });
    expect(readFileSync(at("v.img"), "utf8")).toBe("data");
    expect(lines()).toEqual([]);
  });

  test("leaves nothing when mke2fs fails", async () => {
    const { disk } = machine({ mke2fs: { exitCode: 1, stderr: " no space\n" } });
    await expect(disk.make(at("v.img"), { kind: "files", sizeBytes: 1 })).rejects.toMatchObject({
      code: "OS_PROGRAM_FAILED",
      details: { program: "mke2fs", exitCode: 1, stderr: "no space" },
    });
    expect(readdirSync(directory)).toEqual([]);
  });

  test.each([
    { name: "too long", path: "n".repeat(256), call: "stat" },
    { name: "in a missing directory", path: "none/v.img", call: "make claim" },
  ])("reports a path that is $name", async ({ path, call }) => {
    const making = machine().disk.make(at(path), { kind: "device", sizeBytes: 1 });
    await expect(making).rejects.toMatchObject({ code: "OS_FILE_FAILED", details: { call } });
  });
});

describe("mounting the file of a claim", () => {
  const buildVolume = (group?: number) => ({
    directory: at("mount"),
    ...(group === undefined ? {} : { group }),
  });
  const MOUNT = [
    "mkdir --parents --mode=0750 /mount",
    "mount -t ext4 -o loop,nosuid,nodev,noatime,discard,noinit_itable,errors=remount-ro /v.img /mount",
  ];

  test.each([
    {
      name: "checks the file system first",
      answers: {},
      want: [LIST, "e2fsck -p /v.img", ...MOUNT],
    },
    {
      name: "mounts a repaired file system",
      answers: { e2fsck: { exitCode: 3 } },
      want: [LIST, "e2fsck -p /v.img", ...MOUNT],
    },
    {
      name: "skips the check while a loop device uses the file",
      answers: { losetup: { stdout: "/dev/loop7 1\n" } },
      want: [LIST, ...MOUNT],
    },
  ])("$name", async ({ answers, want }) => {
    writeFileSync(at("v.img"), "");
    const { disk, lines } = machine(answers);
    await disk.mount(at("v.img"), buildVolume());
    expect(lines()).toEqual(want);
  });

  test("rejects a damaged file system with the last line of e2fsck", async () => {
    writeFileSync(at("v.img"), "");
    const stdout = "first\n/v.img: UNEXPECTED INCONSISTENCY\n";
    const { disk, lines } = machine({ e2fsck: { exitCode: 4, stdout } });
    await expect(disk.mount(at("v.img"), buildVolume())).rejects.toMatchObject({
      code: "OS_FILE_FAILED",
      details: {
        reason:
          "the file system in it is damaged (/v.img: UNEXPECTED INCONSISTENCY): copy the file, then run e2fsck on it",
      },
    });
    expect(lines()).toEqual([LIST, "e2fsck -p /v.img"]);
  });

  test.each([
    { name: "no group", options: {}, want: [] },
    { name: "the current group", options: { group: 0 }, want: [] },
    {
      name: "another group",
      options: { group: 107 },
      want: [
        `${WALK} -exec chgrp --no-dereference 107 {} +`,
        `${WALK} ( -type d -exec chmod ug+rwx,g+s {} + ) -o ( -type f -exec chmod ug+rw {} + )`,
        "chmod 2775 /proc",
        "chgrp 107 /proc",
      ],
    },
  ])("assigns files that are already mounted to $name", async ({ options, want }) => {
    writeFileSync(at("v.img"), "");
    const { disk, lines, commands } = machine();
    await disk.mount(at("v.img"), { directory: MOUNTED, ...options });
    expect(lines()).toEqual(want);
    const deadlines = commands.map(({ argv: [program], timeoutMs }) => [program, timeoutMs]);
    expect(deadlines).toEqual(
      want.map((line) =>
        line.startsWith("find") ? ["find", 600_000] : [line.split(" ")[0], 60_000],
      ),
    );
  });

  test.each(["mount", "attach"] as const)("reports a missing file to %s", async (call) => {
    const { disk, lines } = machine();
    const calls = {
      mount: () => disk.mount(at("v.img"), buildVolume()),
      attach: () => disk.attach(at("v.img")),
    };
    await expect(calls[call]()).rejects.toMatchObject({
      code: "OS_FILE_FAILED",
      details: { call, reason: expect.stringContaining("restore it from a backup") as string },
    });
    expect(lines()).toEqual([]);
  });
});

describe("the device of a claim", () => {
  test.each([
    { name: "a regular file", stdout: () => `${at("v.img")}\n` },
    { name: "a character device", stdout: () => "/dev/null\n" },
  ])("is rejected if losetup names $name", async ({ stdout }) => {
    writeFileSync(at("v.img"), "");
    const { disk, lines } = machine({ losetup: { stdout: stdout() } });
    await expect(disk.attach(at("v.img"))).rejects.toMatchObject({
      code: "OS_FILE_FAILED",
      details: {
        call: "attach",
        path: stdout().trim(),
        reason: `it is not the device of ${at("v.img")}`,
      },
    });
    expect(lines()).toEqual(["losetup --nooverlap --find --show /v.img"]);
  });
});

describe("a device that losetup names", () => {
  test.each([
    { name: "a symbolic link", path: "link" },
    { name: "missing", path: "missing" },
  ])("is rejected if it is $name", async ({ path }) => {
    writeFileSync(at("v.img"), "");
    symlinkSync(at("v.img"), at("link"));
    const { disk } = machine({ losetup: { stdout: `${at(path)}\n` } });
    await expect(disk.attach(at("v.img"))).rejects.toMatchObject({
      code: "OS_FILE_FAILED",
      details: { call: "attach", path: at(path) },
    });
  });
});

describe("releasing a claim", () => {
  test.each([
    { name: "without a mount or a device", directory: "/none", stdout: "", want: [LIST] },
    {
      name: "with both",
      directory: MOUNTED,
      stdout: "/dev/loop1 0\n/dev/loop2 1\n/dev/loop3 0\n",
      want: ["umount /proc", LIST, "losetup --detach /dev/loop1", "losetup --detach /dev/loop3"],
    },
  ])("$name removes what exists", async ({ directory: mount, stdout, want }) => {
    const { disk, lines } = machine({ losetup: { stdout } });
    await disk.release(at("v.img"), mount);
    expect(lines()).toEqual(want);
  });

  test("reports losetup's output", async () => {
    const { disk } = machine({ losetup: { exitCode: 1, stderr: "no such file\n" } });
    await expect(disk.release(at("v.img"), "/none")).rejects.toMatchObject({
      code: "OS_PROGRAM_FAILED",
      details: { program: "losetup", exitCode: 1, stderr: "no such file" },
    });
    expect(existsSync(at("v.img"))).toBe(false);
  });
});
