// SPDX-License-Identifier: Apache-2.0
// Volumes that root mounts: file systems in memory and in files, directories of the machine.
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statfsSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isAppError } from "@patchbay/base";
import { createProcessRunner, createVolumeDisk } from "@patchbay/os";
import { describeVolumeDiskContract } from "@patchbay/os/testing";
import { afterEach, beforeEach, describe, expect, test } from "vitest";

const MEBIBYTE = 2 ** 20;
const ACCESS = { uid: 107, gid: 108, mode: 0o2770 };
const disk = createVolumeDisk({ runner: createProcessRunner() });
let directory = "";

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "patchbay-volumes-"));
});
async function clean(): Promise<void> {
  await disk.unmountAll(directory);
  rmSync(directory, { recursive: true, force: true });
}
afterEach(clean);

function fileOf(text: string, mode = 0o644): { bytes: Uint8Array; mode: number } {
  return { bytes: Buffer.from(text), mode };
}

function codeOf(error: unknown): string {
  return isAppError(error) ? error.code : String(error);
}

function accessOf(path: string): typeof ACCESS {
  const { uid, gid, mode } = statSync(path);
  return { uid, gid, mode: mode & 0o7777 };
}

function read(path: string): string | undefined {
  return existsSync(path) ? readFileSync(path, "utf8") : undefined;
}

describeVolumeDiskContract("a machine", () =>
  Promise.resolve({ disk, directory, read, close: clean }),
);

describe("a volume file system", () => {
  test.each(["memory", "image"] as const)(
    "in %s is full at its size and belongs to its owner",
    async (type) => {
      const path = join(directory, "volume");
      const sizeBytes = 8 * MEBIBYTE;
      if (type === "memory") await disk.mountMemory(path, { access: ACCESS, sizeBytes });
      else
        await disk.mountImage(path, { access: ACCESS, image: join(directory, "image"), sizeBytes });
      expect(accessOf(path)).toEqual(ACCESS);
      expect(readdirSync(path)).toEqual([]);
      const { bavail, bsize } = statfsSync(path);
      expect(bavail * bsize).toBeGreaterThanOrEqual(sizeBytes);
      expect(bavail * bsize).toBeLessThan(sizeBytes * 1.2);
      const flood = (): void => {
        writeFileSync(join(path, "flood"), Buffer.alloc(sizeBytes * 1.2));
      };
      expect(flood).toThrow(/ENOSPC/);
    },
  );

  test("in a file retains its content across a reboot and uses no more disk space", async () => {
    const path = join(directory, "volume");
    const options = { access: ACCESS, image: join(directory, "image"), sizeBytes: 1024 * MEBIBYTE };
    await disk.mountImage(path, options);
    writeFileSync(join(path, "kept"), "1");
    await disk.unmountAll(path);
    // Simulates a reboot: another suite's mount namespace may hold copied mounts for some moments.
    const held = (): string => execFileSync("losetup", ["-j", options.image], { encoding: "utf8" });
    await expect.poll(held).toBe("");
    await disk.mountImage(path, options);
    expect(readFileSync(join(path, "kept"), "utf8")).toBe("1");
    expect(statSync(options.image).blocks * 512).toBeLessThan(8 * MEBIBYTE);
  });

  test("in a file that another mount namespace holds retains its content until that process ends", async () => {
    const path = join(directory, "volume");
    const options = { access: ACCESS, image: join(directory, "image"), sizeBytes: MEBIBYTE };
    await disk.mountImage(path, options);
    writeFileSync(join(path, "kept"), "1");
    const holder = spawn("unshare", ["--mount", "sh", "-c", "echo held; read end"]);
    try {
      await once(holder.stdout, "data");
      await disk.unmountAll(path);
      await expect(disk.mountImage(path, options)).rejects.toMatchObject({
        code: "OS_FILE_IN_USE",
        details: { path: options.image },
      });
    } finally {
      holder.stdin.end();
      await once(holder, "close");
    }
    const again = (): Promise<void> => disk.mountImage(path, options);
    await expect.poll(() => again().then(() => "mounted", codeOf)).toBe("mounted");
    expect(readFileSync(join(path, "kept"), "utf8")).toBe("1");
  });

  test("in a damaged file is recreated", async () => {
    const path = join(directory, "volume");
    const options = { access: ACCESS, image: join(directory, "image"), sizeBytes: MEBIBYTE };
    writeFileSync(options.image, "no file system");
    await disk.mountImage(path, options);
    expect(readdirSync(path)).toEqual([]);
  });
});

describe("a machine directory", () => {
  const shown = (): string => join(directory, "shown");
  const source = (): string => join(directory, "source");

  test("is mounted with its content, without programs, devices and nested mounts", async () => {
    mkdirSync(join(source(), "memory"), { recursive: true });
    writeFileSync(join(source(), "disk.img"), "1");
    writeFileSync(join(source(), "program"), "#!/bin/sh\n", { mode: 0o755 });
    await disk.mountMemory(join(source(), "memory"), { access: ACCESS });
    writeFileSync(join(source(), "memory/hidden"), "2");
    await disk.mountDirectory(shown(), source());
    expect(read(join(shown(), "disk.img"))).toBe("1");
    expect(readdirSync(join(shown(), "memory"))).toEqual([]);
    expect(() => execFileSync(join(shown(), "program"))).toThrow(/EACCES/);
    const mounts = readFileSync("/proc/self/mounts", "utf8").split("\n");
    const [, , , options = ""] =
      mounts.find((line) => line.includes(` ${shown()} `))?.split(" ") ?? [];
    expect(options.split(",")).toEqual(expect.arrayContaining(["nosuid", "nodev", "noexec"]));
  });

  test.each(["link", "link/inner", "file"])("is rejected through a %s", async (way) => {
    mkdirSync(join(source(), "inner"), { recursive: true });
    symlinkSync(source(), join(directory, "link"));
    writeFileSync(join(directory, "file"), "");
    await expect(disk.mountDirectory(shown(), join(directory, way))).rejects.toMatchObject({
      code: "OS_PATH_REFUSED",
    });
    expect(existsSync(shown())).toBe(false);
    expect(await disk.listMounts(directory)).toEqual([]);
  });
});

describe("published files", () => {
  const volume = (): string => join(directory, "volume");

  test("are visible through ..data with their modes and owners, and nothing else is", async () => {
    await disk.makeDirectory(volume(), { uid: 0, gid: 0, mode: 0o755 });
    await disk.publish(volume(), new Map([["a", fileOf("1")]]));
    const secret = { ...fileOf("2", 0o440), uid: 107, gid: 108 };
    await disk.publish(volume(), new Map([["deep/b", secret]]));
    expect(readdirSync(volume()).filter((name) => !name.startsWith(".."))).toEqual(["deep"]);
    expect(readlinkSync(join(volume(), "deep"))).toBe("..data/deep");
    expect(readdirSync(volume())).toHaveLength(3); // ..data and its target at every depth
    expect(accessOf(join(volume(), "deep/b"))).toEqual({ uid: 107, gid: 108, mode: 0o440 });
  });

  test("contain the result of the last of several concurrent writes, and nothing else", async () => {
    await disk.makeDirectory(volume(), { uid: 0, gid: 0, mode: 0o755 });
    const texts = ["1", "2", "3", "4"];
    await Promise.all(texts.map((text) => disk.publish(volume(), new Map([["a", fileOf(text)]]))));
    expect(read(join(volume(), "a"))).toBe("4");
    expect(readdirSync(volume())).toHaveLength(3);
  });

  test("are published after an interrupted write", async () => {
    mkdirSync(join(volume(), "..left"), { recursive: true });
    symlinkSync("..left", join(volume(), "..data_tmp"));
    mkdirSync(join(volume(), "a"));
    await disk.publish(volume(), new Map([["a", fileOf("1")]]));
    expect(readFileSync(join(volume(), "a"), "utf8")).toBe("1");
    expect(readdirSync(volume())).toHaveLength(3);
  });

  test("are consistent: a reader of two files that change together reads one generation", async () => {
    await disk.makeDirectory(volume(), { uid: 0, gid: 0, mode: 0o755 });
    const generation = (text: string) =>
      new Map([
        ["a", fileOf(text)],
        ["b", fileOf(text)],
      ]);
    await disk.publish(volume(), generation("0"));
    const over = new AbortController();
    const writing = (async () => {
      for (let turn = 1; turn <= 50; turn += 1)
        await disk.publish(volume(), generation(String(turn)));
      over.abort();
    })();
    let reads = 0;
    while (!over.signal.aborted) {
      const data = readlinkSync(join(volume(), "..data"));
      const [a, b] = ["a", "b"].map((name) => read(join(volume(), data, name)));
      expect(a).toBe(b);
      reads += 1;
      await new Promise(setImmediate);
    }
    await writing;
    expect(reads).toBeGreaterThan(0);
  });
});

test("a tree's usage counts allocated disk space", async () => {
  const path = join(directory, "volume");
  await disk.makeDirectory(path, ACCESS);
  writeFileSync(join(path, "file"), Buffer.alloc(MEBIBYTE));
  execFileSync("truncate", ["-s", "1G", join(path, "sparse")]);
  const used = (await disk.usedBytes([path])).get(path) ?? 0;
  expect(used).toBeGreaterThanOrEqual(MEBIBYTE);
  expect(used).toBeLessThan(2 * MEBIBYTE);
});
