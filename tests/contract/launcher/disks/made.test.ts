// SPDX-License-Identifier: Apache-2.0
// prepare-disks with the launcher image's programs, as the launchers' user: what it creates and what it leaves
// unchanged.
import { chmodSync, chownSync, mkdirSync, readFileSync, statSync } from "node:fs";
import { symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { attempt, run } from "../../images/archive.ts";
import { useImageRoot, LIMIT, MIB, READY, USER, WORK } from "./image-root.ts";

const image = useImageRoot();
const work = (...path: readonly string[]): string => image().work(...path);
const prepare = (words: readonly string[], env: NodeJS.ProcessEnv = {}) =>
  image().prepare(words, env);

describe("overlay", () => {
  const overlay = (source: string, limit = LIMIT) =>
    prepare(["overlay", "root", `${WORK}/out/root.qcow2`, `${WORK}/${source}`, limit]);

  test.each(["qcow2", "raw"])(
    "puts a qcow2 overlay over a %s file that is alone in its directory",
    (format) => {
      image().makeImage("image/disk/a b.img", format);
      expect(overlay("image/disk")).toEqual(READY);
      expect(image().infoOf("out/root.qcow2")).toMatchObject([
        {
          format: "qcow2",
          "virtual-size": 8 * MIB,
          "backing-filename": `${WORK}/image/disk/a b.img`,
          "backing-filename-format": format,
        },
        { format },
      ]);
    },
  );

  test("the next run recreates it, independent of leftovers of a killed run", () => {
    image().makeImage("image/disk.img", "raw");
    writeFileSync(work("out/root.qcow2"), "of the guest's last life");
    writeFileSync(work("out/root.qcow2.partial"), "half");
    for (const file of image().made()) chownSync(work("out", file), USER, USER);
    expect(overlay("image/disk.img")).toEqual(READY);
    expect(image().infoOf("out/root.qcow2")).toMatchObject([{ "virtual-size": 8 * MIB }, {}]);
    expect(image().made()).toEqual(["root.qcow2"]);
  });

  test("never writes to the backing file", () => {
    image().makeImage("image/disk.img", "raw");
    chmodSync(work("image/disk.img"), 0o444);
    expect(overlay("image/disk.img")).toEqual(READY);
  });
});

test("disk content can be read with direct I/O", () => {
  image().makeImage("image/disk.img", "raw");
  writeFileSync(work("odd.img"), "x".repeat(700));
  chownSync(work("odd.img"), USER, USER);
  const words = [
    "direct",
    "overlay",
    "root",
    `${WORK}/out/a.qcow2`,
    `${WORK}/image/disk.img`,
    LIMIT,
    "--",
    "direct",
    "file",
    "odd",
    `${WORK}/odd.img`,
    LIMIT,
    "--",
    "direct",
    "iso",
    "small",
    `${WORK}/out/c.iso`,
    "cidata",
    "path=text:TEXT",
    "--",
    "direct",
    "empty",
    "more",
    `${WORK}/out/b.qcow2`,
    "1048576",
  ];
  expect(prepare(words, { TEXT: "text" })).toEqual(READY);
});

describe("file", () => {
  test("leaves a raw file of the claim unchanged", () => {
    writeFileSync(work("disk.img"), "x".repeat(4096));
    chownSync(work("disk.img"), USER, USER);
    expect(prepare(["file", "data", `${WORK}/disk.img`, LIMIT])).toEqual(READY);
    expect(readFileSync(work("disk.img"), "utf8")).toBe("x".repeat(4096));
  });

  test("a read-only file need not be writable", () => {
    writeFileSync(work("disk.img"), "x".repeat(4096));
    const words = ["file", "data", `${WORK}/disk.img`, LIMIT];
    expect(prepare([...words, "readonly"])).toEqual(READY);
    expect(prepare(words)).toMatchObject({
      status: 3,
      said: expect.stringContaining("may not be written by user 107") as string,
    });
  });

  test("creates a missing file sparsely and preserves it", () => {
    const words = ["file", "data", `${WORK}/disk.img`, LIMIT, "make"];
    expect(prepare(words)).toEqual(READY);
    expect(statSync(work("disk.img"))).toMatchObject({ size: 64 * MIB, blocks: 0, uid: USER });
    truncateSync(work("disk.img"), MIB);
    expect(prepare(words)).toEqual(READY);
    expect(statSync(work("disk.img")).size).toBe(MIB);
  });

  /** With a file system of so many MiB below `volume`. */
  function prepareOn(mib: number, words: readonly string[]) {
    mkdirSync(work("volume"));
    const script = `mount -t tmpfs -o size=${String(mib)}m,mode=777 none "$0${WORK}/volume"
      chroot --userspec=107:107 "$0" prepare-disks "$@" && stat -c %s "$0${WORK}/volume/disk.img"`;
    const argv = ["unshare", "--mount", "sh", "-c", script, image().root, ...words];
    const { stdout, stderr } = attempt(argv, { PATH: "/usr/sbin:/usr/bin:/sbin:/bin" });
    return `${stdout}${stderr}`.trimEnd();
  }

  test("slightly too little space creates a disk of the free size", () => {
    const words = ["file", "data", `${WORK}/volume/disk.img`, LIMIT, "make"];
    expect(Number(prepareOn(60, words))).toBe(60 * MIB);
  });

  test("much too little space creates no disk", () => {
    const words = ["file", "data", `${WORK}/volume/disk.img`, LIMIT, "make"];
    expect(prepareOn(50, words)).toContain("bytes are free for");
  });
});

describe("fill", () => {
  const fill = (source: string, limit = LIMIT) =>
    prepare(["fill", "root", `${WORK}/out/disk.img`, `${WORK}/${source}`, limit, WORK]);
  /** An 8 MiB raw disk that begins with a text. */
  function makeDisk(text: string): void {
    mkdirSync(work("image/disk"), { recursive: true });
    writeFileSync(work("image/disk/root.img"), text);
    truncateSync(work("image/disk/root.img"), 8 * MIB);
  }
  const textOn = (file: string) => readFileSync(work(file)).toString("latin1", 0, 5);

  test("converts an image to a raw file as large as the claim", () => {
    image().makeImage("image/disk/root.qcow2", "qcow2");
    expect(fill("image/disk")).toEqual(READY);
    const { size, mode } = statSync(work("out/disk.img"));
    expect({ size, mode: mode & 0o777 }).toEqual({ size: 64 * MIB, mode: 0o660 });
    expect(image().made()).toEqual(["disk.img"]);
  });

  test("ignores leftovers of a killed run and does not fill a completed disk again", () => {
    makeDisk("first");
    writeFileSync(work("out/disk.img.partial"), "half".repeat(99));
    chownSync(work("out/disk.img.partial"), USER, USER);
    expect(fill("image/disk")).toEqual(READY);
    makeDisk("other");
    expect(fill("image/disk")).toEqual(READY);
    expect(textOn("out/disk.img")).toBe("first");
    expect(image().made()).toEqual(["disk.img"]);
  });

  test("rejects an image larger than the claim and creates no disk", () => {
    makeDisk("first");
    expect(fill("image/disk", String(4 * MIB))).toMatchObject({
      status: 3,
      said: expect.stringContaining("is a disk of 8388608 bytes, and at most 4194304") as string,
    });
    expect(image().made()).toEqual([]);
  });

  test("fills a device from its start", () => {
    makeDisk("first");
    writeFileSync(work("file"), "");
    truncateSync(work("file"), 16 * MIB);
    const device = run(["losetup", "--find", "--show", work("file")]).trim();
    try {
      const numbers = run(["stat", "-c", "%Hr %Lr", device]).trim().split(" ");
      run(["mknod", work("device"), "b", ...numbers]);
      chownSync(work("device"), USER, USER);
      const words = ["fill", "root", `${WORK}/device`, `${WORK}/image/disk`, String(16 * MIB)];
      expect(prepare(words)).toEqual(READY);
      expect(textOn("device")).toBe("first");
    } finally {
      run(["losetup", "--detach", device]);
    }
  });

  test("reports a failed download with its URL and creates no disk", () => {
    const url = "http://127.0.0.1:9/disk.qcow2";
    const words = ["fill", "root", `${WORK}/out/disk.img`, url, LIMIT, WORK];
    expect(prepare(words)).toMatchObject({
      status: 1,
      said: expect.stringContaining(`disk root: cannot download ${url}: `) as string,
    });
    expect(image().made()).toEqual([]);
  });
});

describe("block", () => {
  const device = () => work("device");
  beforeEach(() => {
    // A RAM disk's number; it is never opened.
    run(["mknod", device(), "b", "1", "0"]);
  });

  test("a device that the user may use is ready", () => {
    chownSync(device(), USER, USER);
    expect(prepare(["block", "data", `${WORK}/device`])).toEqual(READY);
  });

  test.each([
    ["data", 0o600, "may not be read by user 107"],
    ["data", 0o604, "may not be written by user 107"],
  ])("%s of mode %o %s", (name, mode, reason) => {
    chmodSync(device(), mode);
    const { status, said: output } = prepare(["block", name, `${WORK}/device`]);
    expect(status).toBe(1);
    expect(output).toContain(`disk data: ${WORK}/device ${reason}`);
  });

  test("a read-only device is ready if it is readable", () => {
    chmodSync(device(), 0o604);
    expect(prepare(["block", "data", `${WORK}/device`, "readonly"])).toEqual(READY);
  });

  test("rejects a file", () => {
    const { status, said: output } = prepare(["block", "data", "/etc/passwd"]);
    expect({ status, said: output }).toEqual({
      status: 3,
      said: "prepare-disks: disk data: there is no block device /etc/passwd; the claim's volumeMode must be Block",
    });
  });
});

test("an empty disk has the requested size and uses little space", () => {
  const bytes = 5 * 1024 * MIB;
  expect(prepare(["empty", "more", `${WORK}/out/more.qcow2`, String(bytes)])).toEqual(READY);
  expect(image().infoOf("out/more.qcow2")).toMatchObject([
    { format: "qcow2", "virtual-size": bytes },
  ]);
  expect(statSync(work("out/more.qcow2")).size).toBeLessThan(MIB);
});

describe("iso", () => {
  const iso = (contents: readonly string[], env: NodeJS.ProcessEnv = {}) =>
    prepare(["iso", "config", `${WORK}/out/config.iso`, "cidata", ...contents], env);

  test("files come from variables and from the first key that a secret has", () => {
    const userData = "#cloud-config\nhostname: ü$HOME `id` $(id)\n\n";
    mkdirSync(work("secret"));
    writeFileSync(work("secret/userData"), "of the secret");
    const env = { META: '{"a": "b"}', DATA: Buffer.from(userData).toString("base64"), EMPTY: "" };
    const contents = [
      "meta-data=text:META",
      "user-data=base64:DATA",
      "openstack/latest/user_data=file:/tmp/work/secret/userdata",
      "openstack/latest/user_data=file:/tmp/work/secret/userData",
      "empty=text:EMPTY",
    ];
    expect(iso(contents, env)).toEqual(READY);
    expect(image().readIso("out/config.iso")).toEqual({
      "meta-data": '{"a": "b"}',
      "user-data": userData,
      "openstack/latest/user_data": "of the secret",
      empty: "",
    });
    const bytes = readFileSync(work("out/config.iso"));
    // Source: ECMA-119 8.4, the primary volume descriptor.
    expect(bytes.toString("latin1", 32_808, 32_840).trimEnd()).toBe("cidata");
    expect(bytes.length % 4096).toBe(0);
    expect(image().made()).toEqual(["config.iso"]);
  });

  test("a volume's files have the names that pods see, without its internal directories", () => {
    mkdirSync(work("volume/..2026/deep"), { recursive: true });
    writeFileSync(work("volume/..2026/a.conf"), "a");
    writeFileSync(work("volume/..2026/.hidden"), "h");
    writeFileSync(work("volume/..2026/deep/b"), "b");
    symlinkSync("..2026", work("volume/..data"));
    for (const name of ["a.conf", ".hidden", "deep"]) {
      symlinkSync(`..data/${name}`, work("volume", name));
    }
    expect(iso([`tree:${WORK}/volume`])).toEqual(READY);
    expect(image().readIso("out/config.iso")).toEqual({
      ".hidden": "h",
      "a.conf": "a",
      "deep/b": "b",
    });
  });

  test("preserves long names and many files", () => {
    const long = `${"n".repeat(250)}.a`;
    mkdirSync(work("volume"));
    writeFileSync(work("volume", long), "long");
    for (let index = 0; index < 300; index += 1)
      writeFileSync(work(`volume/f${String(index)}`), "");
    expect(iso([`tree:${WORK}/volume`])).toEqual(READY);
    expect(Object.keys(image().readIso("out/config.iso"))).toHaveLength(301);
  });

  test.each([
    ["user-data=base64:TEXT", "what is given for user-data is not base64"],
    ["user-data=file:/tmp/work/userdata", "there is nothing for user-data"],
  ])("rejects %s and creates no image", (content, reason) => {
    const { status, said: output } = iso([content], { TEXT: "%%%" });
    expect(status).toBe(3);
    expect(output).toContain(`disk config: ${reason}`);
    expect(image().made()).toEqual([]);
  });
});

describe("copy", () => {
  const TEMPLATE = "/usr/share/seabios/bios-256k.bin";
  const copy = () => prepare(["copy", "nvram", `${WORK}/out/nvram.fd`, TEMPLATE]);

  test("copies a template once and preserves what firmware wrote later", () => {
    expect(copy()).toEqual(READY);
    const copied = readFileSync(work("out/nvram.fd"));
    expect(copied.equals(readFileSync(join(image().root, TEMPLATE)))).toBe(true);
    copied[0] = 77;
    writeFileSync(work("out/nvram.fd"), copied);
    expect(copy()).toEqual(READY);
    expect(readFileSync(work("out/nvram.fd"))[0]).toBe(77);
  });

  test("does not reuse another firmware's file", () => {
    writeFileSync(work("out/nvram.fd"), "short");
    chownSync(work("out/nvram.fd"), USER, USER);
    expect(copy()).toMatchObject({
      status: 3,
      said: expect.stringContaining("is not of the size of") as string,
    });
  });
});
