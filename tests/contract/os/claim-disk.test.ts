// SPDX-License-Identifier: Apache-2.0
// Claim files that root mounts through loop devices.
import { execFileSync } from "node:child_process";
import {
  chownSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statfsSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import type { ProcessRunner } from "@patchbay/core/interfaces";
import { createClaimDisk, createProcessRunner } from "@patchbay/os";
import { describeClaimDiskContract } from "@patchbay/os/testing";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { parseMounts } from "../../../packages/adapters/os/src/volumes/mounts.ts";

const MEBIBYTE = 2 ** 20;
const disk = createClaimDisk({ runner: createProcessRunner() });
let directory = "";

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "patchbay-claims-"));
});

/** Loop devices over files below the path; `lasting`: only those without autoclear. */
function loopsBelow(path: string, which: "all" | "lasting" = "all"): readonly string[] {
  const list = ["--list", "--noheadings", "--raw", "--output", "NAME,AUTOCLEAR,BACK-FILE"];
  const lines = execFileSync("losetup", list, { encoding: "utf8" }).split("\n");
  return lines.flatMap((line) => {
    const [device = "", autoclear, file = ""] = line.split(" ");
    const isMeant = which === "all" || autoclear === "0";
    return isMeant && file.startsWith(`${path}/`) ? [device] : [];
  });
}

function mounts(path: string): readonly string[] {
  return parseMounts(readFileSync("/proc/self/mountinfo", "utf8"), path);
}

function clean(): Promise<void> {
  for (const point of mounts(directory).toReversed()) execFileSync("umount", [point]);
  for (const device of loopsBelow(directory, "lasting"))
    execFileSync("losetup", ["--detach", device]);
  rmSync(directory, { recursive: true, force: true });
  return Promise.resolve();
}
afterEach(clean);

describeClaimDiskContract("a machine", () =>
  Promise.resolve({
    disk,
    directory,
    close: clean,
    isMounted: (path: string) => mounts(path).includes(path),
  }),
);

const at = (name: string): string => join(directory, name);

describe("files of a claim", () => {
  test.each([1, 8, 127, 128, 1023, 1024, 10_240, 102_400])(
    "of size %d MiB have that much space, and use little more than the journal and tables at first",
    async (mebibytes) => {
      const sizeBytes = mebibytes * MEBIBYTE;
      await disk.make(at("v.img"), { kind: "files", sizeBytes });
      await disk.mount(at("v.img"), { directory: at("mount") });
      const { bavail, bsize } = statfsSync(at("mount"));
      expect(bavail * bsize).toBeGreaterThanOrEqual(sizeBytes * 1.002);
      expect(bavail * bsize).toBeLessThan(Math.max(sizeBytes * 1.1, 13 * MEBIBYTE));
      const journalBytes = (mebibytes < 1024 ? 16 : 64) * MEBIBYTE;
      expect(statSync(at("v.img")).blocks * 512).toBeLessThan(
        4 * MEBIBYTE + journalBytes + sizeBytes * 0.017,
      );
    },
  );

  test.each([1, 129, 1023, 102_400, 307_200, 1_048_576])(
    "of size %d MiB have their journal and tables in the part that is allocated",
    async (mebibytes) => {
      const runner = createProcessRunner();
      let allocated = 0;
      const run: ProcessRunner["run"] = (command) => {
        if (command.argv[0] !== "fallocate") return runner.run(command);
        allocated = Number(command.argv[command.argv.indexOf("--length") + 1]);
        return Promise.resolve({ exitCode: 0, stdout: "", stderr: "" });
      };
      const killProcessFamily = (family: string) => runner.killProcessFamily(family);
      const unallocated = createClaimDisk({ runner: { run, killProcessFamily } });
      await unallocated.make(at("v.img"), { kind: "files", sizeBytes: mebibytes * MEBIBYTE });
      const options = { encoding: "utf8", maxBuffer: 64 * MEBIBYTE, stdio: "pipe" } as const;
      const groups = execFileSync("dumpe2fs", [at("v.img")], options);
      const journal = execFileSync("debugfs", ["-R", "blocks <8>", at("v.img")], options);
      const last = Math.max(
        ...journal.trim().split(/\s+/).map(Number),
        ...[...groups.matchAll(/(?:bitmap|Inode table) at (?:\d+-)?(\d+)/g)].map(([, block]) =>
          Number(block),
        ),
      );
      expect(last * 4096).toBeGreaterThan(4 * MEBIBYTE);
      expect(allocated).toBeGreaterThanOrEqual((last + 1) * 4096);
      expect(allocated).toBeLessThan((last + 1) * 4096 * 1.06 + 3 * MEBIBYTE);
    },
  );

  test("accept writes again after the host's disk was full", async () => {
    const [host, file] = [at("host"), at("host/v.img")];
    mkdirSync(host);
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=40M", "tmpfs", host]);
    await disk.make(file, { kind: "files", sizeBytes: 16 * MEBIBYTE });
    await disk.mount(file, { directory: at("mount") });
    const data = Buffer.alloc(8 * MEBIBYTE, 1);
    const write = (): void => {
      writeFileSync(at("mount/data"), data, { flush: true });
    };
    expect(() => {
      writeFileSync(join(host, "hog"), Buffer.alloc(40 * MEBIBYTE));
    }).toThrow(/ENOSPC/);
    expect(write).toThrow();
    rmSync(join(host, "hog"));
    write();
    await disk.release(file, at("mount"));
    await disk.mount(file, { directory: at("mount") });
    expect(readFileSync(at("mount/data")).equals(data)).toBe(true);
  });

  test("are full at the claim's size and retain their content", async () => {
    const size = { kind: "files", sizeBytes: 16 * MEBIBYTE } as const;
    await disk.make(at("v.img"), size);
    await disk.mount(at("v.img"), { directory: at("mount") });
    const bytes = Buffer.alloc(size.sizeBytes, 1);
    writeFileSync(at("mount/disk.img"), bytes);
    expect(() => {
      writeFileSync(at("mount/flood"), Buffer.alloc(size.sizeBytes));
    }).toThrow(/ENOSPC/);
    await disk.release(at("v.img"), at("mount"));
    await expect.poll(() => loopsBelow(directory)).toEqual([]);
    await disk.make(at("v.img"), size);
    await disk.mount(at("v.img"), { directory: at("mount") });
    expect(readFileSync(at("mount/disk.img")).equals(bytes)).toBe(true);
  });

  test("return removed data to the disk", async () => {
    await disk.make(at("v.img"), { kind: "files", sizeBytes: 64 * MEBIBYTE });
    await disk.mount(at("v.img"), { directory: at("mount") });
    writeFileSync(at("mount/disk.img"), Buffer.alloc(32 * MEBIBYTE, 1));
    execFileSync("sync", ["--file-system", at("mount")]);
    const before = statSync(at("v.img")).blocks;
    rmSync(at("mount/disk.img"));
    execFileSync("sync", ["--file-system", at("mount")]);
    await disk.release(at("v.img"), at("mount"));
    expect(before * 512).toBeGreaterThan(32 * MEBIBYTE);
    expect(statSync(at("v.img")).blocks * 512).toBeLessThan(16 * MEBIBYTE);
  });

  test("get the group of the mount once, without following links", async () => {
    await disk.make(at("v.img"), { kind: "files", sizeBytes: MEBIBYTE });
    await disk.mount(at("v.img"), { directory: at("mount") });
    mkdirSync(at("mount/below"), { mode: 0o700 });
    writeFileSync(at("mount/below/disk.img"), "x", { mode: 0o600 });
    writeFileSync(at("outside"), "x", { mode: 0o600 });
    symlinkSync(at("outside"), at("mount/below/link"));
    chownSync(at("mount/below/disk.img"), 1000, 1000);
    await disk.mount(at("v.img"), { directory: at("mount"), group: 107 });
    const observed = (path: string) => {
      const { uid, gid, mode } = statSync(at(path));
      return `${String(uid)}:${String(gid)} ${(mode & 0o7777).toString(8)}`;
    };
    expect(["mount", "mount/below", "mount/below/disk.img", "outside"].map(observed)).toEqual([
      "0:107 2775",
      "0:107 2770",
      "1000:107 660",
      "0:0 600",
    ]);
    writeFileSync(at("mount/later"), "x", { mode: 0o600 });
    await disk.mount(at("v.img"), { directory: at("mount"), group: 107 });
    expect(observed("mount/later")).toBe("0:107 600");
  });

  test("stay unchanged if damaged, and the reason names the next step", async () => {
    const bytes = Buffer.alloc(MEBIBYTE, 7);
    writeFileSync(at("v.img"), bytes);
    await expect(disk.mount(at("v.img"), { directory: at("mount") })).rejects.toThrow(
      /damaged .* copy the file, then run e2fsck/,
    );
    expect(readFileSync(at("v.img")).equals(bytes)).toBe(true);
  });

  test("that another mount namespace holds are mounted from the same device", async () => {
    await disk.make(at("v.img"), { kind: "files", sizeBytes: MEBIBYTE });
    await disk.mount(at("v.img"), { directory: at("other") });
    writeFileSync(at("other/seen"), "1");
    await disk.mount(at("v.img"), { directory: at("mount") });
    expect(readFileSync(at("mount/seen"), "utf8")).toBe("1");
    expect(loopsBelow(directory)).toHaveLength(1);
  });
});

describe("a claim's device", () => {
  test("has the claim's size to the byte and retains its data", async () => {
    const size = { kind: "device", sizeBytes: 5 * MEBIBYTE } as const;
    await disk.make(at("v.img"), size);
    const device = await disk.attach(at("v.img"));
    const sectors = readFileSync(`/sys/block/${basename(device)}/size`, "utf8");
    expect(Number(sectors) * 512).toBe(size.sizeBytes);
    writeFileSync(device, Buffer.alloc(4096, 5), { flag: "r+" });
    await disk.release(at("v.img"), at("none"));
    await expect.poll(() => loopsBelow(directory)).toEqual([]);
    expect(readFileSync(at("v.img")).subarray(0, 4096)).toEqual(Buffer.alloc(4096, 5));
  });
});

test("an interrupted creation restarts, and an impossible one leaves nothing", async () => {
  writeFileSync(at("v.img.tmp"), "half");
  await disk.make(at("v.img"), { kind: "device", sizeBytes: 4096 });
  expect(statSync(at("v.img")).size).toBe(4096);
  const endless = disk.make(at("w.img"), { kind: "device", sizeBytes: 2 ** 60 });
  await expect(endless).rejects.toMatchObject({ code: "OS_FILE_FAILED" });
  expect(() => {
    truncateSync(at("w.img.tmp"));
  }).toThrow(/ENOENT/);
});
