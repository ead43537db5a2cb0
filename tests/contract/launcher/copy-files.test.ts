// SPDX-License-Identifier: Apache-2.0
// What does the program copy that runs in a kernel's image, and what does it refuse, with which words?
import { execFileSync, spawnSync } from "node:child_process";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";

const IMAGES = resolve(import.meta.dirname, "../../../hack/images");

let program = "";
let image = "";

beforeAll(() => {
  program = join(mkdtempSync(join(tmpdir(), "copy-files-")), "copy-files");
  const source = join(IMAGES, "virt-launcher/copy-files.c");
  execFileSync(join(IMAGES, "compile-static"), [source, program], { stdio: "inherit" });
});
afterAll(() => {
  rmSync(resolve(program, ".."), { recursive: true });
});

beforeEach(() => {
  image = mkdtempSync(join(tmpdir(), "image-"));
  for (const directory of ["to", "boot", "proc"]) mkdirSync(join(image, directory));
  execFileSync("cp", [program, join(image, "copy-files")]);
  writeFileSync(join(image, "initrd"), "first");
  writeFileSync(join(image, "boot/linux-6"), "kernel");
  writeFileSync(join(image, "boot/initrd"), "second");
  symlinkSync("boot/linux-6", join(image, "vmlinuz"));
  symlinkSync("/../../etc/hostname", join(image, "out"));
  return () => {
    rmSync(image, { recursive: true });
  };
});

/** Runs it with the image as its root, as nobody in particular. */
function copy(...words: readonly string[]): {
  readonly code: number | null;
  readonly said: string;
} {
  const { status, stderr } = spawnSync("chroot", [image, "/copy-files", ...words], {
    encoding: "utf8",
  });
  return { code: status, said: stderr.trim() };
}

/** Files below the destination with their text. */
function copied(): Readonly<Record<string, string>> {
  const names = readdirSync(join(image, "to"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();
  const below = join(image, "to").length;
  return Object.fromEntries(names.map((name) => [name.slice(below), readFileSync(name, "utf8")]));
}

const DONE = { code: 0, said: "" };

describe("copy-files", () => {
  test("copies by name, and follows the image's own links", () => {
    expect(copy("/to", "/vmlinuz", "/initrd")).toEqual(DONE);
    expect(copied()).toEqual({ "/initrd": "first", "/vmlinuz": "kernel" });
  });

  test("keeps the directories of the sources, and may be repeated", () => {
    const words = ["--parents", "/to", "/initrd", "/boot/initrd"];
    expect([copy(...words), copy(...words)]).toEqual([DONE, DONE]);
    expect(copied()).toEqual({ "/boot/initrd": "second", "/initrd": "first" });
  });

  test("brings itself", () => {
    // It reads itself from /proc, which every container has.
    execFileSync(program, ["--self", join(image, "to")]);
    expect(readFileSync(join(image, "to/copy-files"))).toEqual(readFileSync(program));
  });

  test.each([
    { words: ["/to", "/linux"], said: "copy-files: /linux: No such file or directory" },
    { words: ["/to", "/boot"], said: "copy-files: /boot: is no regular file" },
    { words: ["/to", "/out"], said: "copy-files: /out: No such file or directory" },
    {
      words: ["/to", "/initrd", "/boot/initrd"],
      said: "copy-files: /boot/initrd: another source has the same name",
    },
    {
      words: ["--parents", "/to", "/boot/../initrd"],
      said: "copy-files: ../initrd: has . or .. in it",
    },
    { words: ["/nowhere", "/initrd"], said: "copy-files: /nowhere: No such file or directory" },
  ])("refuses $words", ({ words, said }) => {
    expect(copy(...words)).toEqual({ code: 1, said });
    expect(copied()).toEqual({});
  });

  test("copies nothing that is mounted into the image's container", () => {
    const target = join(image, "proc");
    execFileSync("mount", ["-t", "tmpfs", "copy-files-test", target]);
    try {
      writeFileSync(join(target, "token"), "secret");
      const said = "copy-files: /proc/token: is not in the image's own file system";
      expect(copy("/to", "/proc/token")).toEqual({ code: 1, said });
    } finally {
      execFileSync("umount", [target]);
    }
    expect(copied()).toEqual({});
  });

  test.each([
    { words: [] },
    { words: ["/to"] },
    { words: ["--parents", "/to"] },
    { words: ["--self", "/to", "/initrd"] },
    { words: ["--other", "/to", "/initrd"] },
  ])("called with $words tells how it is called", ({ words }) => {
    const said = expect.stringMatching(/^usage: /) as string;
    expect(copy(...words)).toEqual({ code: 2, said });
  });
});
