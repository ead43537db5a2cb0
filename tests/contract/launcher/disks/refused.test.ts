// SPDX-License-Identifier: Apache-2.0
// prepare-disks with the launcher image's programs, as the launchers' user: what it rejects, and its messages.
import { chownSync, linkSync, mkdirSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { run } from "../../images/archive.ts";
import { useImageRoot, LIMIT, MIB, READY, USER, WORK } from "./image-root.ts";

const image = useImageRoot();
const work = (...path: readonly string[]): string => image().work(...path);
const prepare = (text: readonly string[], env: NodeJS.ProcessEnv = {}) =>
  image().prepare(text, env);

describe("a rejected image", () => {
  test.each([
    ["qcow", "of a version that is not known"],
    ["vmdk", "is a vmdk image"],
    ["vdi", "is a vdi image"],
    ["vhdx", "is a vhdx image"],
    ["vpc", "is a vpc image"],
    ["qed", "is a qed image"],
    ["parallels", "is a parallels image"],
  ])("%s: %s", (format, reason) => {
    image().makeImage("disk.img", format);
    const over = prepare(["overlay", "root", `${WORK}/out/a.qcow2`, `${WORK}/disk.img`, LIMIT]);
    expect(over).toMatchObject({ status: 3, said: expect.stringContaining(reason) as string });
    const used = prepare(["file", "root", `${WORK}/disk.img`, LIMIT]);
    expect(used.status).toBe(3);
    expect(image().made()).toEqual([]);
  });

  test.each([
    ["gzip", "1f8b0800"],
    ["xz", "fd377a585a00"],
    ["zstd", "28b52ffd"],
    ["bzip2", "425a6839"],
    ["zip", "504b0304"],
  ])("compressed by %s, although a guest may write such bytes to its claim", (program, magic) => {
    const head = Buffer.from(magic, "hex");
    writeFileSync(work("disk.img"), Buffer.concat([head, Buffer.alloc(4096)]));
    chownSync(work("disk.img"), USER, USER);
    const { status, said: output } = prepare([
      "overlay",
      "root",
      `${WORK}/out/a.qcow2`,
      `${WORK}/disk.img`,
      LIMIT,
    ]);
    expect(status).toBe(3);
    expect(output).toContain(`is compressed by ${program}; unpack it`);
    expect(prepare(["file", "root", `${WORK}/disk.img`, LIMIT])).toEqual(READY);
  });

  test.each([
    ["empty", 0, "is empty"],
    ["larger than its limit", 65 * MIB, "at most 67108864 are allowed"],
  ])("%s", (_, bytes, reason) => {
    writeFileSync(work("disk.img"), "");
    truncateSync(work("disk.img"), bytes);
    chownSync(work("disk.img"), USER, USER);
    const text = ["file", "data", `${WORK}/disk.img`, LIMIT];
    expect(prepare(text)).toMatchObject({
      status: 3,
      said: expect.stringContaining(reason) as string,
    });
  });

  test("missing, ambiguous, or empty", () => {
    const overlay = (source: string) =>
      prepare(["overlay", "root", `${WORK}/out/a.qcow2`, `${WORK}/${source}`, LIMIT]).said;
    expect(overlay("none.img")).toContain("there is no file /tmp/work/none.img");
    mkdirSync(work("disk"));
    expect(overlay("disk")).toContain("there is no disk in /tmp/work/disk");
    for (const name of ["a", "b"]) writeFileSync(work("disk", name), "");
    expect(overlay("disk")).toContain("more than one file in /tmp/work/disk (");
  });

  test("a file with a second hard link on its claim", () => {
    writeFileSync(work("disk.img"), "x".repeat(4096));
    linkSync(work("disk.img"), work("other"));
    expect(prepare(["file", "data", `${WORK}/disk.img`, LIMIT]).said).toContain("other hard links");
  });
});

describe("on a file system without direct I/O", () => {
  const groups = (...prefix: readonly string[]) => [
    [...prefix, "file", "data", `${WORK}/memory/disk.img`, LIMIT],
    [...prefix, "overlay", "root", `${WORK}/out/a.qcow2`, `${WORK}/memory/disk.img`, LIMIT],
    [...prefix, "empty", "more", `${WORK}/memory/b.qcow2`, "1048576"],
    [...prefix, "iso", "small", `${WORK}/memory/c.iso`, "cidata", "path=text:TEXT"],
  ];
  const prepareAll = (all: readonly (readonly string[])[]) =>
    prepare(
      all.flatMap((text, index) => (index === 0 ? text : ["--", ...text])),
      { TEXT: "text" },
    );

  beforeEach(() => {
    mkdirSync(work("memory"));
    run(["mount", "-t", "ramfs", "ramfs", work("memory")]);
    chownSync(work("memory"), USER, USER);
    writeFileSync(work("memory/disk.img"), Buffer.alloc(MIB));
    chownSync(work("memory/disk.img"), USER, USER);
  });
  afterEach(() => {
    run(["umount", work("memory")]);
  });

  test("names each disk that needs direct I/O, with the next step", () => {
    const { status, said: output } = prepareAll(groups("direct"));
    expect(status).toBe(3);
    const wanted = ["data", "root", "more", "small"].map(
      (name) =>
        expect.stringMatching(
          new RegExp(
            `^prepare-disks: disk ${name}: ${WORK}/memory/.* without direct I/O.*; set cache: writethrough on the disk$`,
          ),
        ) as string,
    );
    expect(output.split("\n")).toEqual(wanted);
  });

  test("prepares the other disks", () => {
    expect(prepareAll(groups())).toEqual(READY);
  });
});

describe("several disks", () => {
  test("names all wrong disks at once and creates the other disks", () => {
    const { status, said: output } = prepare([
      "file",
      "data",
      `${WORK}/none.img`,
      LIMIT,
      "--",
      "empty",
      "more",
      `${WORK}/out/more.qcow2`,
      "1048576",
      "--",
      "empty",
      "lost",
      `${WORK}/none/lost.qcow2`,
      "1048576",
    ]);
    expect(status).toBe(3);
    expect(output.split("\n")).toEqual([
      expect.stringMatching(/^prepare-disks: disk data: there is no file .*; .+$/) as string,
      expect.stringMatching(/^prepare-disks: disk lost: cannot make .*; .+$/) as string,
    ]);
    expect(image().made()).toEqual(["more.qcow2"]);
  });

  test("prints user-chosen names as text", () => {
    mkdirSync(work("disk"));
    symlinkSync("/etc/passwd", work("disk/\u001b[31m\nprepare-disks: all is well"));
    const { said: output } = prepare(["overlay", "root", `${WORK}/out/a`, `${WORK}/disk`, LIMIT]);
    expect(output).toContain("?[31m prepare-disks: all is well is a symbolic link");
    expect(output.split("\n")).toHaveLength(1);
  });
});

test.each([
  { words: [] },
  { words: ["overlay"] },
  { words: ["overlay", "a", "b", "c"] },
  { words: ["overlay", "a", "b", "c", "-1"] },
  { words: ["overlay", "a", "b", "c", "10Gi"] },
  { words: ["file", "a", "b", "1", "quickly"] },
  { words: ["block", "a", "b", "make"] },
  { words: ["empty", "a", "b", "99999999999999999999"] },
  { words: ["iso", "a", "/tmp/work/out/a", "label", "path"] },
  { words: ["iso", "a", "/tmp/work/out/a", "label", "path=link:/etc/passwd"] },
  { words: ["iso", "a", "/tmp/work/out/a", "label", "../path=text:PATH"] },
  { words: ["iso", "a", "/tmp/work/out/a", "label", "a/../../path=text:PATH"] },
  { words: ["iso", "a", "/tmp/work/out/a", "label", "path=text:NO_SUCH_VARIABLE"] },
  { words: ["usage", "a", "b"] },
  { words: ["direct"] },
  { words: ["direct", "direct", "block", "a", "b"] },
])("$words is not a group", ({ words: text }) => {
  const { status, said: output } = prepare(text);
  expect({ status, said: output }).toEqual({
    status: 2,
    said: expect.stringMatching(
      /^prepare-disks: .*see docs\/reference\/prepare-disks\.md$/,
    ) as string,
  });
  expect(image().made()).toEqual([]);
});
