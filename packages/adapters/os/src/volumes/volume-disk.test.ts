// SPDX-License-Identifier: Apache-2.0
// Which programs are run for a volume, with fake programs: mounts themselves need root, tests/contract/os has them.
import { once } from "node:events";
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { CommandResult } from "@patchbay/core/interfaces";
import { createFakeProcessRunner } from "@patchbay/os/testing";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { listMounts } from "./mounts.ts";
import { createVolumeDisk } from "./volume-disk.ts";

const MEBIBYTE = 2 ** 20;
/** A mount point of every Linux machine. The programs that would change it are fakes. */
const MOUNTED = "/proc";
const ACCESS = { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0, mode: 0o2750 };
let directory = "";
const at = (name: string): string => join(directory, name);

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "patchbay-volumes-"));
});
afterEach(() => {
  rmSync(directory, { recursive: true, force: true });
});

/** Programs answer so, by name; all others succeed without output. */
function machine(answers: Readonly<Record<string, Partial<CommandResult>>> = {}) {
  const sizes: number[] = [];
  const names = ["e2fsck", "losetup", "mount", "umount", "nice"];
  const programs = names.map((name) => [name, () => answers[name] ?? {}] as const);
  const runner = createFakeProcessRunner({
    ...Object.fromEntries(programs),
    mke2fs: ({ argv }) => {
      sizes.push(statSync(argv.at(-1) ?? "").size);
      return answers["mke2fs"] ?? {};
    },
  });
  return {
    disk: createVolumeDisk({ runner }),
    sizes,
    lines: () => runner.commands.map(({ argv }) => argv.join(" ").replaceAll(directory, "")),
  };
}

/** The access that the mount point has already. */
function readAccess(path: string) {
  const { uid, gid, mode } = statSync(path);
  return { uid, gid, mode: mode & 0o7777 };
}

describe("a directory", () => {
  test.each([
    { name: "a missing directory", prepare: () => undefined },
    {
      name: "a directory with a different mode",
      prepare: () => {
        mkdirSync(at("deep/volume"), { recursive: true });
        chmodSync(at("deep/volume"), 0o700);
      },
    },
  ])("$name gets the requested access", async ({ prepare }) => {
    prepare();
    for (let round = 0; round < 2; round += 1) {
      await machine().disk.makeDirectory(at("deep/volume"), ACCESS);
      expect(readAccess(at("deep/volume"))).toEqual(ACCESS);
    }
  });

  test("in place of a file is an error", async () => {
    writeFileSync(at("file"), "");
    await expect(machine().disk.makeDirectory(at("file"), ACCESS)).rejects.toMatchObject({
      code: "OS_FILE_FAILED",
      details: { call: "make directory", path: at("file"), errno: "EEXIST" },
    });
  });
});

describe("a file system in memory", () => {
  const owner = `uid=${String(ACCESS.uid)},gid=${String(ACCESS.gid)}`;
  const options = `nosuid,nodev,mode=2750,${owner}`;

  test.each([
    { name: "with a size", input: { sizeBytes: 4096 }, want: `${options},size=4096` },
    { name: "without a size", input: {}, want: options },
  ])("$name is mounted with the requested access", async ({ input, want }) => {
    const { disk, lines } = machine();
    await disk.mountMemory(at("memory"), { access: ACCESS, ...input });
    expect(lines()).toEqual([`mount -t tmpfs -o ${want} tmpfs /memory`]);
    expect(readAccess(at("memory"))).toEqual(ACCESS);
  });

  test("that is already mounted stays unchanged", async () => {
    const { disk, lines } = machine();
    await disk.mountMemory(MOUNTED, { access: readAccess(MOUNTED) });
    expect(lines()).toEqual([]);
  });

  test("that cannot be mounted is reported with mount's output", async () => {
    const { disk } = machine({ mount: { exitCode: 32, stderr: " permission denied\n" } });
    await expect(disk.mountMemory(at("memory"), { access: ACCESS })).rejects.toMatchObject({
      code: "OS_PROGRAM_FAILED",
      details: { program: "mount", exitCode: 32, stderr: "permission denied" },
    });
  });
});

describe("a file system in a file", () => {
  const LIST = "losetup --list --noheadings --raw --output NAME,AUTOCLEAR --associated /image";
  const options = () => ({ access: ACCESS, image: at("image"), sizeBytes: 32 * MEBIBYTE });

  test("that is already mounted stays unchanged", async () => {
    const { disk, lines } = machine();
    await disk.mountImage(MOUNTED, { ...options(), access: readAccess(MOUNTED) });
    expect(lines()).toEqual([]);
  });

  test("that another mount uses is rejected", async () => {
    writeFileSync(at("image"), "data");
    const { disk, lines } = machine({ losetup: { stdout: "/dev/loop4 1\n/dev/loop5 1\n" } });
    await expect(disk.mountImage(at("volume"), options())).rejects.toMatchObject({
      code: "OS_FILE_IN_USE",
      details: { path: at("image"), device: "/dev/loop4" },
    });
    expect(lines()).toEqual([LIST]);
  });

  test.each([
    { name: "a missing file", text: undefined, want: [] },
    { name: "a file that e2fsck cannot repair", text: "data", want: [LIST, "e2fsck -p -f /image"] },
  ])("$name is created with room for ext4's metadata", async ({ text, want }) => {
    if (text !== undefined) writeFileSync(at("image"), text);
    // The last program fails, because the mount itself needs a directory of root's.
    const { disk, lines, sizes } = machine({ e2fsck: { exitCode: 4 }, mke2fs: { exitCode: 1 } });
    await expect(disk.mountImage(at("volume"), options())).rejects.toMatchObject({
      code: "OS_PROGRAM_FAILED",
      details: { program: "mke2fs" },
    });
    expect(lines().slice(0, -1)).toEqual(want);
    expect(lines().at(-1)).toMatch(/^mke2fs .* -O \^has_journal,\^resize_inode .* \/image\.tmp$/);
    expect(sizes).toEqual([34 * MEBIBYTE]);
    expect(readdirSync(directory)).toEqual(text === undefined ? [] : ["image"]);
  });
});

describe("a directory of the machine", () => {
  test("that is already mounted stays unchanged", async () => {
    const { disk, lines } = machine();
    await disk.mountDirectory(MOUNTED, directory);
    expect(lines()).toEqual([]);
  });

  test.each([
    { name: "a symbolic link", path: "link", code: "OS_PATH_REFUSED" },
    { name: "a path through a symbolic link", path: "link/inner", code: "OS_PATH_REFUSED" },
    { name: "a file", path: "file", code: "OS_PATH_REFUSED" },
    { name: "a missing directory", path: "none", code: "OS_FILE_FAILED" },
  ])("is rejected if the path is $name", async ({ path, code }) => {
    mkdirSync(at("source/inner"), { recursive: true });
    symlinkSync(at("source"), at("link"));
    writeFileSync(at("file"), "");
    const { disk, lines } = machine();
    await expect(disk.mountDirectory(at("shown"), at(path))).rejects.toMatchObject({ code });
    expect(lines()).toEqual([]);
  });
});

test("unmounts everything at a path and below it in reverse order", async () => {
  const { disk, lines } = machine();
  const points = await disk.listMounts(MOUNTED);
  expect(points).toContain(MOUNTED);
  expect(points).toEqual(await listMounts(MOUNTED));
  await disk.unmountAll(MOUNTED);
  const want = points.map((point) => `umount --lazy --no-canonicalize ${point}`);
  expect(lines()).toEqual(want.toReversed());
});

test("publishing returns whether files changed, and reports its errors", async () => {
  const { disk } = machine();
  const { uid, gid } = ACCESS;
  const files = new Map([["a", { bytes: Buffer.from("1"), mode: 0o644, uid, gid }]]);
  const publish = () => disk.publish(directory, files);
  expect(await Promise.all([publish(), publish()])).toEqual([true, false]);
  await expect(disk.publish(at("none"), files)).rejects.toMatchObject({
    code: "OS_FILE_FAILED",
    details: { call: "publish", path: at("none"), errno: "ENOENT" },
  });
});

test.each([
  { name: "no paths", paths: [], want: [], lines: [] },
  {
    name: "two paths",
    paths: ["/a", "/b c"],
    want: [["/b c", 8192]],
    lines: ["nice du -sx -B1 -- /a /b c"],
  },
])("the usage of $name is what du reports", async ({ paths, want, lines }) => {
  const made = machine({ nice: { exitCode: 1, stdout: "8192\t/b c\n" } });
  expect([...(await made.disk.usedBytes(paths))]).toEqual(want);
  expect(made.lines()).toEqual(lines);
});

describe("the kind of a path", () => {
  test.each([
    { path: "directory", want: "Directory" },
    { path: "file", want: "File" },
    { path: "link", want: "File" },
    { path: "socket", want: "Socket" },
    { path: "none", want: undefined },
    { path: "/dev/null", want: "CharDevice" },
  ])("$path is $want", async ({ path, want }) => {
    mkdirSync(at("directory"));
    writeFileSync(at("file"), "");
    symlinkSync(at("file"), at("link"));
    const server = createServer();
    await once(server.listen(at("socket")), "listening");
    try {
      const absolute = path.startsWith("/") ? path : at(path);
      expect(await machine().disk.readKind(absolute)).toBe(want);
    } finally {
      server.close();
    }
  });

  test("that cannot be read is reported as an error", async () => {
    const path = at("n".repeat(256));
    await expect(machine().disk.readKind(path)).rejects.toMatchObject({
      code: "OS_FILE_FAILED",
      details: { call: "stat", path, errno: "ENAMETOOLONG" },
    });
  });
});
