// SPDX-License-Identifier: Apache-2.0
// Images of the own containerd: built from a directory, imported, listed, removed. Needs root, containerd and runc.
import { cp, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  archiveDirectory,
  importImage,
  listAdded,
  listImages,
  removeImage,
} from "@patchbay/containerd";
import { shimSocketPaths } from "@patchbay/containerd/testing";
import { createClock, createFiles, createProcessRunner, killAndWait } from "@patchbay/os";
import { eventually } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startContainerdBench, type ContainerdBench } from "./bench.ts";

const NAME = "docker.io/library/guest:latest";
const OTHER = "docker.io/library/other:latest";
const clock = createClock();
const files = createFiles();
const runner = createProcessRunner();
let bench: ContainerdBench;
let work: string;

function deps() {
  return { clock, files, runner, layout: bench.layout };
}

/** An archive of an image with a program and a text file. */
async function makeArchive(name: string, text: string): Promise<string> {
  const source = join(work, `${name}-source`);
  await mkdir(source);
  await writeFile(join(source, "vmlinuz"), text);
  await cp("/bin/busybox", join(source, "busybox"));
  const image = { source, workDirectory: join(work, name), architecture: "amd64" };
  return archiveDirectory({ files, runner }, image);
}

beforeAll(async () => {
  work = await mkdtemp(join(tmpdir(), "ctrd-images-"));
  bench = await startContainerdBench();
});
afterAll(async () => {
  await bench.close();
  await rm(work, { recursive: true });
});

test("a directory produces the same image each time, regardless of ownership and times", async () => {
  const one = await makeArchive("one", "kernel");
  const two = await makeArchive("two", "kernel");
  await importImage(deps(), { archive: one, id: "one" }, NAME);
  await importImage(deps(), { archive: two, id: "two" }, OTHER);
  const images = await listImages(deps());
  expect(images.map(({ name }) => name)).toEqual([NAME, OTHER]);
  expect(new Set(images.map(({ digest }) => digest)).size).toBe(1);
});

test("reports an added name as added until it refers to another image", async () => {
  expect(await listAdded(deps())).toEqual([NAME, OTHER]);
  expect(await listAdded(deps(), NAME)).toEqual([NAME]);
  const { layout } = bench;
  const archive = await makeArchive("fetched", "another's");
  // Like CRI, which preserves the labels of a replaced image.
  await bench.ctr("images", "import", "--base-name", "fetched.invalid", "--digests", archive);
  const [fetched = ""] = (await bench.ctr("images", "ls", "-q", "name~=fetched.invalid")).split(
    "\n",
  );
  await bench.ctr("images", "tag", "--force", fetched, OTHER);
  const { digest = "" } = (await listImages(deps())).find(({ name }) => name === NAME) ?? {};
  await bench.ctr("images", "label", OTHER, `patchbay.io/added=${digest}`);
  expect(await listAdded({ runner, layout })).toEqual([NAME]);
  await bench.ctr("images", "rm", "--sync", fetched);
});

test("an archive replaces the image of its name without leftovers", async () => {
  const archive = await makeArchive("three", "another kernel");
  await importImage(deps(), { archive, id: "three" }, NAME);
  await removeImage(deps(), OTHER);
  expect((await listImages(deps())).map(({ name }) => name)).toEqual([NAME]);
  // The name, and CRI's id of the image.
  expect((await bench.ctr("images", "ls", "--quiet")).trim().split("\n")).toHaveLength(2);
});

test("a running container retains its image's layers; a killed shim leaves nothing", async () => {
  const { layout } = bench;
  const below = ["--fifo-dir", join(layout.directory, "fifo"), "--runc-root", layout.runcRoot];
  await bench.ctr("run", "--detach", ...below, NAME, "it", "/busybox", "sleep", "60");
  const [socket = ""] = shimSocketPaths(layout, "it");
  expect(await files.exists(socket)).toBe(true);
  await removeImage(deps(), NAME);
  expect(await bench.ctr("tasks", "ls")).toMatch(/it +\d+ +RUNNING/);
  for (const pid of await bench.listShims()) await killAndWait(pid);
  await eventually(async () => !(await files.exists(socket)), { withinMs: 5000 });
  expect(await bench.ctr("tasks", "ls", "--quiet")).toBe("");
  await bench.ctr("containers", "delete", "it");
});

test("a removed image is deleted with its layers when no container runs from it", async () => {
  await removeImage(deps(), NAME); // repeated: a missing image is a success
  expect(await bench.ctr("images", "ls", "--quiet")).toBe("");
  expect(await bench.ctr("content", "ls", "--quiet")).toBe("");
});

test("another containerd of the machine does not list the image", async () => {
  const archive = await makeArchive("four", "kernel");
  await importImage(deps(), { archive, id: "four" }, NAME);
  const another = await startContainerdBench();
  try {
    const [images] = await Promise.all([
      another.ctr("images", "ls", "--quiet"),
      bench.ctr("version"),
    ]);
    expect(images).toBe("");
    expect(await another.ctr("namespaces", "ls", "--quiet")).toBe("");
  } finally {
    await another.close();
  }
  // Its end did not affect this one.
  expect(await listImages(deps())).toHaveLength(1);
  await removeImage(deps(), NAME);
});

test("rejects an invalid archive and leaves nothing", async () => {
  const archive = join(work, "no-archive");
  await writeFile(archive, "text");
  await expect(importImage(deps(), { archive, id: "no" }, NAME)).rejects.toMatchObject({
    code: "CONTAINERD_FAILED",
  });
  expect(await listImages(deps())).toEqual([]);
});
