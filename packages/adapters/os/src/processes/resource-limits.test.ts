// SPDX-License-Identifier: Apache-2.0
// Hierarchies are directories here: the kernel's own are tried by the contract tests, on whichever version there is.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { limitControlGroup } from "./resource-limits.ts";

const LIMITS = { memoryBytes: 2 ** 30, processes: 1000 };
let root = "";
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "pb-groups-"));
});
afterEach(() => {
  rmSync(root, { recursive: true });
});

/** A line of mountinfo for a hierarchy below the root, which is made. */
function mounted(name: string, filesystem: string): string {
  mkdirSync(join(root, name));
  return `30 29 0:26 / ${join(root, name)} rw,relatime shared:9 - ${filesystem}`;
}

const read = (...parts: string[]): string => readFileSync(join(root, ...parts), "utf8");

test("on version 1 each controller has its own hierarchy", async () => {
  const lines = [
    mounted("cpu", "cgroup cgroup rw,cpu,cpuacct"),
    mounted("memory", "cgroup cgroup rw,memory"),
    mounted("pids", "cgroup cgroup rw,pids"),
    mounted("unified", "cgroup2 cgroup2 rw"),
  ];
  writeFileSync(join(root, "unified/cgroup.controllers"), "hugetlb\n");
  expect(await limitControlGroup("/pods", LIMITS, lines.join("\n"))).toEqual([]);
  expect(read("memory/pods/memory.limit_in_bytes")).toBe("1073741824");
  expect(read("pids/pods/pids.max")).toBe("1000");
  expect(existsSync(join(root, "unified/pods"))).toBe(false);
});

test("on version 2 controllers are enabled down to the group", async () => {
  const line = mounted("unified", "cgroup2 cgroup2 rw");
  writeFileSync(join(root, "unified/cgroup.controllers"), "cpu memory pids\n");
  expect(await limitControlGroup("/a/pods", LIMITS, line)).toEqual([]);
  expect(read("unified/a/pods/memory.max")).toBe("1073741824");
  expect(read("unified/a/pods/pids.max")).toBe("1000");
  expect(read("unified/a/cgroup.subtree_control")).toBe("+pids");
  expect(read("unified/cgroup.subtree_control")).toBe("+pids");
  expect(existsSync(join(root, "unified/a/pods/cgroup.subtree_control"))).toBe(false);
});

test("names limits that the machine does not support", async () => {
  const line = mounted("pids", "cgroup cgroup rw,pids");
  expect(await limitControlGroup("/pods", LIMITS, line)).toEqual(["memory"]);
  expect(read("pids/pods/pids.max")).toBe("1000");
});

test("a limit that the kernel rejects fails with the file's name", async () => {
  const line = mounted("pids", "cgroup cgroup rw,pids");
  mkdirSync(join(root, "pids/pods/pids.max"), { recursive: true });
  await expect(limitControlGroup("/pods", LIMITS, line)).rejects.toMatchObject({
    code: "OS_FILE_FAILED",
    details: { path: join(root, "pids/pods/pids.max") },
  });
});

test("on version 2, limits a top-level group and a group below enabled controllers", async () => {
  const line = mounted("unified", "cgroup2 cgroup2 rw");
  writeFileSync(join(root, "unified/cgroup.controllers"), "memory\n");
  for (const group of ["/pods", "/a/b/pods"]) {
    expect(await limitControlGroup(group, LIMITS, line)).toEqual(["pids"]);
    expect(read("unified", group, "memory.max")).toBe("1073741824");
  }
  for (const parent of ["", "a", "a/b"]) {
    expect(read("unified", parent, "cgroup.subtree_control")).toBe("+memory");
  }
});

test("other file systems and a version 2 without controllers limit nothing", async () => {
  const lines = [
    mounted("disk", "ext4 /dev/vda rw,memory,pids"),
    mounted("unified", "cgroup2 cgroup2 rw,memory,pids"),
    "no line of a mount",
  ];
  expect(await limitControlGroup("/pods", LIMITS, lines.join("\n"))).toEqual(["memory", "pids"]);
});

/** In a process of its own: a score that was raised does not come down again everywhere. */
function runs(score: number): string {
  const module = join(import.meta.dirname, "resource-limits.ts");
  const script = `
    const { setOomScore } = await import(${JSON.stringify(module)});
    const { execFileSync } = await import("node:child_process");
    const could = await setOomScore(${String(score)});
    console.log(could, execFileSync("cat", ["/proc/self/oom_score_adj"], { encoding: "utf8" }).trim());
  `;
  const argv = ["--conditions=@patchbay/source", "--input-type=module", "--eval", script];
  return spawnSync(process.execPath, argv, { encoding: "utf8" }).stdout.trim();
}

test("child processes inherit the OOM score", () => {
  expect(runs(500)).toBe("true 500");
});

test("an OOM score that the kernel rejects changes nothing", () => {
  // Where root may, it is set.
  expect(["true -999", "false 0"]).toContain(runs(-999));
});
