// SPDX-License-Identifier: Apache-2.0
// copy-files in a hostile image: its own root file system, with /proc and a volume mounted.
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { attempt, IMAGES, run } from "./archive.ts";

const KERNEL = "a kernel\n".repeat(100_000);
let root: string;

beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), "copy-files-"));
  for (const directory of ["boot/deep", "other", "proc", "volume"]) {
    mkdirSync(join(root, directory), { recursive: true });
  }
  const source = join(IMAGES, "virt-launcher/copy-files.c");
  run([join(IMAGES, "compile-static"), source, join(root, "copy-files")]);
  writeFileSync(join(root, "boot/vmlinuz-6.1"), KERNEL);
  writeFileSync(join(root, "boot/initrd"), "an initrd\n");
  writeFileSync(join(root, "other/initrd"), "another initrd\n");
  run(["mkfifo", join(root, "boot/fifo")]);
  const links = {
    vmlinuz: "vmlinuz-6.1",
    climbing: "../../../../boot/vmlinuz-6.1",
    loop: "loop",
    shadow: "/proc/1/root/etc/shadow",
    token: "/volume/token",
  };
  for (const [name, target] of Object.entries(links)) symlinkSync(target, join(root, "boot", name));
  symlinkSync("/out", join(root, "link"));
});
beforeEach(() => {
  rmSync(join(root, "out"), { recursive: true, force: true });
  mkdirSync(join(root, "out"));
});
afterAll(() => {
  rmSync(root, { recursive: true });
});

/** Runs it in its own mount namespace, like a container. */
function copyFiles(...args: readonly string[]) {
  const script = `mount -t tmpfs none "$0/volume"; echo secret >"$0/volume/token"
    mount -t proc proc "$0/proc"; root=$0; exec chroot "$root" /copy-files "$@"`;
  const { status, stderr } = attempt(["unshare", "--mount", "sh", "-c", script, root, ...args]);
  return { status, said: stderr.trim() };
}

/** Creates a file in its own directory, which is returned. */
function makeFile(name: string): string {
  const directory = mkdtempSync(join(root, "other", "renamed-"));
  writeFileSync(join(directory, name), "");
  return directory;
}

function copied(): readonly string[] {
  return readdirSync(join(root, "out"), { encoding: "utf8", recursive: true }).toSorted();
}

test("copies files and targets of links within the image whole and readable by all users", () => {
  const sources = ["/boot/vmlinuz", "/boot/climbing", "boot/initrd"];
  expect(copyFiles("/out", ...sources)).toEqual({ status: 0, said: "" });
  expect(copied()).toEqual(["climbing", "initrd", "vmlinuz"]);
  expect(readFileSync(join(root, "out/vmlinuz"), "utf8")).toBe(KERNEL);
  expect(readFileSync(join(root, "out/climbing"), "utf8")).toBe(KERNEL);
  expect(statSync(join(root, "out/initrd")).mode & 0o777).toBe(0o444);
});

test("follows an upward link while files are renamed", () => {
  const renames = "rename('a', 'b'), rename('b', 'a') while 1";
  const renamer = spawn("perl", ["-e", renames], { cwd: makeFile("a"), stdio: "ignore" });
  try {
    for (let round = 0; round < 20; round += 1) {
      expect(copyFiles("/out", "/boot/climbing")).toEqual({ status: 0, said: "" });
    }
  } finally {
    renamer.kill("SIGKILL");
  }
});

test("a copy replaces the previous copy and the leftovers of a killed copy", () => {
  writeFileSync(join(root, "out/initrd"), "old and longer than the new one");
  writeFileSync(join(root, "out/.copy-files.partial"), "half");
  expect(copyFiles("/out", "/boot/initrd")).toEqual({ status: 0, said: "" });
  expect(copied()).toEqual(["initrd"]);
  expect(readFileSync(join(root, "out/initrd"), "utf8")).toBe("an initrd\n");
});

test("preserves source directories on request, and the copy can be repeated", () => {
  const text = ["--parents", "/out", "/boot/initrd", "other/initrd"];
  expect(copyFiles(...text)).toEqual({ status: 0, said: "" });
  expect(copyFiles(...text)).toEqual({ status: 0, said: "" });
  expect(copied()).toEqual(["boot", "boot/initrd", "other", "other/initrd"]);
  expect(readFileSync(join(root, "out/other/initrd"), "utf8")).toBe("another initrd\n");
});

describe("a disk", () => {
  const disk = (...path: readonly string[]): string => join(root, "disk", ...path);
  beforeEach(() => {
    mkdirSync(disk());
  });
  afterEach(() => {
    rmSync(disk(), { recursive: true, force: true });
  });

  test("is the one file in /disk, or the named one; its directory is preserved", () => {
    writeFileSync(disk("debian.qcow2"), KERNEL);
    writeFileSync(disk(".wh..opq"), "");
    expect(copyFiles("--disk", "/out")).toEqual({ status: 0, said: "" });
    expect(copyFiles("--disk", "/out", "/boot/initrd")).toEqual({ status: 0, said: "" });
    expect(copied()).toEqual(["boot", "boot/initrd", "disk", "disk/debian.qcow2"]);
    expect(readFileSync(join(root, "out/disk/debian.qcow2"), "utf8")).toBe(KERNEL);
  });

  test("uses no more space than its data: holes stay holes", () => {
    writeFileSync(disk("bomb.img"), "");
    run(["truncate", "--size=1T", disk("bomb.img")]);
    const text = ["if=/dev/urandom", `of=${disk("bomb.img")}`, "conv=notrunc", "bs=1M"];
    run(["dd", ...text, "count=1", "seek=500000", "status=none"]);
    expect(copyFiles("--disk", "/out")).toEqual({ status: 0, said: "" });
    const copy = join(root, "out/disk/bomb.img");
    expect(statSync(copy).size).toBe(2 ** 40);
    expect(statSync(copy).blocks * 512).toBeLessThan(2 * 2 ** 20);
    const part = "skip=500000 count=1 bs=1M status=none | sha256sum";
    const sum = (file: string) => run(["sh", "-c", `dd if="$0" ${part}`, file]);
    expect(sum(copy)).toBe(sum(disk("bomb.img")));
  });

  test("uses no space for zeros, which an image layer has instead of holes", () => {
    const bytes = Buffer.alloc(4 << 20);
    bytes.write("a partition", 3 << 20);
    bytes.write("the end", bytes.length - 7);
    writeFileSync(disk("zeros.img"), bytes);
    expect(copyFiles("--disk", "/out")).toEqual({ status: 0, said: "" });
    const copy = join(root, "out/disk/zeros.img");
    expect(readFileSync(copy).equals(bytes)).toBe(true);
    expect(statSync(copy).blocks * 512).toBeLessThan(1 << 20);
  });

  test.each([
    { name: "a symbolic link to any target", link: "../boot/initrd", reason: "is a symbolic link" },
    { name: "a link out of the image", link: "/proc/1/environ", reason: "is a symbolic link" },
  ])("rejects $name", ({ link, reason }) => {
    symlinkSync(link, disk("disk.img"));
    const { status, said: output } = copyFiles("--disk", "/out");
    expect(status).toBe(1);
    expect(output).toMatch(new RegExp(`^copy-files: /disk/disk.img: ${reason}`));
    expect(copied()).toEqual([]);
  });

  test("rejects a disk behind a link in any part of its path", () => {
    rmSync(disk(), { recursive: true });
    symlinkSync("boot", disk());
    const reason = "is a symbolic link, or behind one; put the file itself there";
    expect(copyFiles("--disk", "/out")).toEqual({
      status: 1,
      said: `copy-files: /disk: ${reason}`,
    });
    const named = copyFiles("--disk", "/out", "/disk/initrd");
    expect(named).toEqual({ status: 1, said: `copy-files: /disk/initrd: ${reason}` });
    expect(copied()).toEqual([]);
  });

  test("rejects an ambiguous or missing disk", () => {
    expect(copyFiles("--disk", "/out").said).toContain("/disk: has no file; put the disk there");
    for (const name of ["a.img", "b.img"]) writeFileSync(disk(name), name);
    expect(copyFiles("--disk", "/out").said).toContain("/disk: has more than one file");
    expect(copyFiles("--disk", "/out", "/disk/../boot/initrd").said).toContain("has . or .. in it");
    expect(copied()).toEqual([]);
  });
});

test("copies itself, and the copy runs", () => {
  expect(copyFiles("--self", "/out")).toEqual({ status: 0, said: "" });
  expect(copied()).toEqual(["copy-files"]);
  expect(attempt([join(root, "out/copy-files")]).status).toBe(2);
});

const OUTSIDE = "is not in the image's own file system";

test.each([
  ["a source that is not there", ["/out", "/boot/none"], "No such file or directory"],
  ["a directory", ["/out", "/boot/deep"], "is no regular file"],
  ["a FIFO, without waiting for it", ["/out", "/boot/fifo"], "is no regular file"],
  ["a link in a circle", ["/out", "/boot/loop"], "Too many levels of symbolic links"],
  ["what is mounted into the container", ["/out", "/volume/token"], OUTSIDE],
  ["a link to what is mounted into it", ["/out", "/boot/token"], OUTSIDE],
  ["a link through /proc to the outside", ["/out", "/boot/shadow"], OUTSIDE],
  ["a path that climbs", ["--parents", "/out", "/boot/../other/initrd"], "has . or .. in it"],
  ["a path without a name", ["/out", "/boot/.."], "names no file"],
  ["two sources of one name", ["/out", "/boot/initrd", "/other/initrd"], "has the same name"],
  ["a destination that is not there", ["/none", "/boot/initrd"], "No such file or directory"],
  ["a destination that is a link", ["/link", "/boot/initrd"], "Not a directory"],
])("rejects %s and copies nothing", (_, args, reason) => {
  const { status, said: output } = copyFiles(...args);
  expect({ status, said: output }).toEqual({
    status: 1,
    said: expect.stringContaining(reason) as string,
  });
  expect(copied()).toEqual([]);
});

test("reports a full volume and leaves no partial file", () => {
  writeFileSync(join(root, "boot/huge"), "x".repeat(4 << 20));
  const script = `mount -t tmpfs -o size=1m none "$0/out"; chroot "$0" /copy-files /out /boot/huge
    code=$?; ls -A "$0/out"; exit $code`;
  const outcome = attempt(["unshare", "--mount", "sh", "-c", script, root]);
  expect(outcome).toMatchObject({
    status: 1,
    stdout: "",
    stderr: "copy-files: /boot/huge: No space left on device\n",
  });
});

test.each([
  { args: [] },
  { args: ["/out"] },
  { args: ["--self"] },
  { args: ["--self", "/out", "x"] },
  { args: ["--other", "/out"] },
  { args: ["--parents", "/out"] },
  { args: ["--disk"] },
  { args: ["--disk", "/out", "/a", "/b"] },
])("prints the usage for $args", ({ args }) => {
  const { status, said: output } = copyFiles(...args);
  expect(status).toBe(2);
  expect(output).toContain("usage: copy-files [--parents] DESTINATION-DIR SOURCE...");
});
