// SPDX-License-Identifier: Apache-2.0
// Image files in directories of the machine. Needs root, containerd and runc.
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { archiveDirectory, createImageMounts, importImage } from "@patchbay/containerd";
import { createClock, createFiles, createProcessRunner } from "@patchbay/os";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startContainerdBench, type ContainerdBench } from "./bench.ts";

const files = createFiles();
const runner = createProcessRunner();
let bench: ContainerdBench;
let work: string;
let path: string;

function makeViews() {
  return createImageMounts({ files, runner, layout: bench.layout });
}

function kernel(): Promise<string> {
  return readFile(join(path, "vmlinuz"), "utf8");
}

beforeAll(async () => {
  work = await mkdtemp(join(tmpdir(), "ctrd-views-"));
  path = join(work, "view");
  const source = join(work, "source");
  await mkdir(path);
  await mkdir(source);
  await writeFile(join(source, "vmlinuz"), "kernel");
  bench = await startContainerdBench();
  const image = { source, workDirectory: join(work, "image"), architecture: "amd64" };
  const archive = await archiveDirectory({ files, runner }, image);
  const deps = { clock: createClock(), files, runner, layout: bench.layout };
  await importImage(deps, { archive, id: "it" }, "docker.io/library/guest:latest");
});
afterAll(async () => {
  await makeViews().unmount(path);
  await bench.close();
  await rm(work, { recursive: true });
});

test("shows an image's files read-only, also repeatedly", async () => {
  const views = makeViews();
  await views.mount("guest", path);
  await views.mount("guest", path);
  expect(await kernel()).toBe("kernel");
  await expect(writeFile(join(path, "vmlinuz"), "other")).rejects.toMatchObject({ code: "EROFS" });
  const mounts = (await files.readText("/proc/self/mountinfo")) ?? "";
  expect(mounts.split("\n").find((line) => line.includes(path))).toMatch(/ ro,nosuid,nodev,noexec/);
});

test("a view survives containerd's death for longer than a day, and the next process knows it", async () => {
  await bench.end("SIGKILL");
  expect(await kernel()).toBe("kernel");
  await bench.start();
  await makeViews().mount("guest", path);
  expect(await bench.ctr("snapshots", "info", path)).toContain("containerd.io/gc.root");
});

test("remounts a view that a reboot unmounted", async () => {
  await runner.run({ argv: ["umount", path], timeoutMs: 60_000 });
  await makeViews().mount("guest", path);
  expect(await kernel()).toBe("kernel");
});

test("remounts a view whose snapshot another process removed", async () => {
  await bench.ctr("snapshots", "rm", path);
  await bench.ctr("leases", "rm", path);
  await makeViews().mount("guest", path);
  expect(await kernel()).toBe("kernel");
  expect(await bench.ctr("snapshots", "info", path)).toContain("containerd.io/gc.root");
});

test("releasing a view frees its resources; a missing view is a success", async () => {
  const views = makeViews();
  await views.unmount(path);
  await views.unmount(path);
  expect(await files.list(path)).toEqual([]);
  expect(await bench.ctr("snapshots", "ls")).not.toContain(path);
  expect(await bench.ctr("leases", "ls", "--quiet")).toBe("");
});

test("reports a missing image", async () => {
  await expect(makeViews().mount("none", path)).rejects.toMatchObject({
    code: "RUNTIME_IMAGE_MISSING",
  });
});
