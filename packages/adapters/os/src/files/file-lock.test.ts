// SPDX-License-Identifier: Apache-2.0
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readdirSync, readlinkSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { acquireFileLock, type FileLock } from "./file-lock.ts";

const MODULE = new URL("./file-lock.ts", import.meta.url).href;
let path = "";
beforeEach(() => {
  path = join(mkdtempSync(join(tmpdir(), "patchbay-lock-")), "lock");
});
afterEach(() => {
  rmSync(join(path, ".."), { recursive: true, force: true });
});

function taken(outcome: ReturnType<typeof acquireFileLock>): FileLock {
  if ("release" in outcome) return outcome;
  throw new Error(`held by ${outcome.holderPid}`);
}

/** How many descriptors of this process lead to the lock's file. */
function openLocks(): number {
  return readdirSync("/proc/self/fd").filter((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`).startsWith(path);
    } catch {
      return false;
    }
  }).length;
}

describe("a lock", () => {
  test("has one descriptor, which is closed on release", () => {
    const lock = taken(acquireFileLock(path));
    acquireFileLock(path);
    expect(openLocks()).toBe(1);
    lock.release();
    expect(openLocks()).toBe(0);
  });

  test("names its current holder only, whatever a former holder wrote", () => {
    writeFileSync(path, "12345678901234567890\n");
    const lock = taken(acquireFileLock(path));
    expect(acquireFileLock(path)).toEqual({ holderPid: String(process.pid) });
    lock.release();
  });

  test("whose file was removed can be released", () => {
    const lock = taken(acquireFileLock(path));
    rmSync(path);
    lock.release();
    expect(openLocks()).toBe(0);
  });

  test("has one named holder until it is released", () => {
    const lock = taken(acquireFileLock(path));
    expect(acquireFileLock(path)).toEqual({ holderPid: String(process.pid) });
    lock.release();
    expect(existsSync(path)).toBe(false);
    taken(acquireFileLock(path)).release();
  });

  test("is free after its process was killed", async () => {
    const code = `const { acquireFileLock } = await import(${JSON.stringify(MODULE)});
      acquireFileLock(${JSON.stringify(path)}); console.log("taken"); setInterval(() => {}, 1e6);`;
    const argv = ["--conditions=@patchbay/source", "--input-type=module", "-e", code];
    const child = spawn(process.execPath, argv, { stdio: ["ignore", "pipe", "inherit"] });
    await once(child.stdout, "data");
    expect(acquireFileLock(path)).toEqual({ holderPid: String(child.pid) });
    child.kill("SIGKILL");
    await once(child, "exit");
    taken(acquireFileLock(path)).release();
  });

  test("is acquired on the current file if the previous one was removed meanwhile", () => {
    const first = taken(acquireFileLock(path));
    rmSync(path);
    const second = taken(acquireFileLock(path));
    first.release();
    expect(acquireFileLock(path)).toEqual({ holderPid: String(process.pid) });
    second.release();
  });

  test("cannot be acquired in a missing directory", () => {
    expect(() => acquireFileLock(join(path, "none"))).toThrow(/ENOENT|ENOTDIR/);
  });
});
