// SPDX-License-Identifier: Apache-2.0
// Images of a stopped machine: from a directory, archives and a registry. Needs root, containerd and runc.
import { createHash } from "node:crypto";
import { execFileSync } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { archiveDirectory } from "@patchbay/containerd";
import { createFiles, createProcessRunner } from "@patchbay/os";
import {
  addImage,
  backUp,
  down,
  listImages,
  listRunningImages,
  removeImage,
} from "@patchbay/supervisor";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startRegistry, type Registry } from "../containerd/registry.ts";

const files = createFiles();
const runner = createProcessRunner();
const lines: string[] = [];
let work: string;
let dataDir: string;
let source: string;
let layout: string;
let archive: string;
let registry: Registry;

function add(name: string, from: string) {
  return addImage({
    dataDir,
    name,
    source: from,
    print: (line) => {
      lines.push(line);
    },
  });
}

/** In the format of `docker save`, with an unwanted name. */
async function makeDockerArchive(): Promise<string> {
  const directory = join(work, "docker");
  await mkdir(directory);
  execFileSync("tar", ["-cf", join(directory, "layer.tar"), "-C", source, "."]);
  const layer = createHash("sha256")
    .update(await readFile(join(directory, "layer.tar")))
    .digest("hex");
  const rootfs = { type: "layers", diff_ids: [`sha256:${layer}`] };
  const config = { architecture: "amd64", os: "linux", config: {}, rootfs };
  await writeFile(join(directory, "config.json"), JSON.stringify(config));
  const manifest = [{ Config: "config.json", RepoTags: ["other:tag"], Layers: ["layer.tar"] }];
  await writeFile(join(directory, "manifest.json"), JSON.stringify(manifest));
  const path = join(work, "docker.tar");
  const names = ["manifest.json", "config.json", "layer.tar"];
  execFileSync("tar", ["-cf", path, "-C", directory, ...names]);
  return path;
}

beforeAll(async () => {
  work = await mkdtemp(join(tmpdir(), "images-"));
  dataDir = join(work, "data");
  source = join(work, "source");
  await mkdir(source);
  await writeFile(join(source, "vmlinuz"), "kernel", { mode: 0o600 });
  await symlink("/etc/shadow", join(source, "link"));
  const image = { source, workDirectory: join(work, "image"), architecture: "amd64" };
  archive = await archiveDirectory({ files, runner }, image);
  layout = join(work, "layout");
  await mkdir(layout);
  execFileSync("tar", ["-xf", archive, "-C", layout]);
  registry = await startRegistry(layout);
});
afterAll(async () => {
  await registry.close();
  await rm(work, { recursive: true });
});

test("lists no images before a machine exists", async () => {
  expect(await listImages(dataDir)).toEqual([]);
  expect(await files.exists(dataDir)).toBe(false);
});

test("an added directory produces the same image in every form", async () => {
  const added = await add("guest", source);
  expect(added).toMatchObject({ name: "guest", reference: "docker.io/library/guest:latest" });
  expect(await add("archived", archive)).toMatchObject({ digest: added.digest });
  const pulled = await add("pulled:v1", `${registry.host}/team/guest`);
  expect(pulled).toMatchObject({ name: "pulled:v1", digest: added.digest, bytes: added.bytes });
  expect(lines).toContain(`fetching ${registry.host}/team/guest:latest`);
  const names = (await listImages(dataDir)).map(({ name }) => name);
  expect(names).toEqual(["archived", "guest", "pulled:v1"]);
});

test("adds a docker archive under the requested name", async () => {
  await add("saved", await makeDockerArchive());
  const saved = (await listImages(dataDir)).find(({ name }) => name === "saved");
  expect(saved?.bytes).toBeGreaterThan(0);
});

test("an image added again replaces the previous one", async () => {
  await writeFile(join(source, "vmlinuz"), "another kernel");
  const [before] = (await listImages(dataDir)).filter(({ name }) => name === "guest");
  const after = await add("guest", source);
  expect(after.digest).not.toBe(before?.digest);
});

test("a backup of a stopped machine names its images", async () => {
  const file = join(work, "machine.tar");
  const { images } = await backUp({ dataDir, file, print: () => undefined });
  expect(images).toEqual((await listImages(dataDir)).map(({ name }) => name));
});

test("removes images, which are never in use on a stopped machine", async () => {
  for (const { name } of await listImages(dataDir)) await removeImage(dataDir, name);
  expect(await listImages(dataDir)).toEqual([]);
  expect(await listRunningImages(dataDir)).toEqual([]);
  expect(await readdir(join(dataDir, "run"))).not.toContain("containerd.json");
  const remaining = (await readdir(join(dataDir, "containerd"))).filter((name) =>
    /^image-/.test(name),
  );
  expect(remaining).toEqual([]);
});

test.each([
  { name: "that is missing", source: "./nothing", code: "IMAGE_SOURCE_INVALID" },
  { name: "that is not an archive", source: "/etc/passwd", code: "CONTAINERD_FAILED" },
  { name: "that is a device", source: "/dev/null", code: "IMAGE_SOURCE_INVALID" },
])("rejects a source $name and leaves nothing", async ({ source: from, code }) => {
  await expect(add("guest", from)).rejects.toMatchObject({ code });
  expect(await listImages(dataDir)).toEqual([]);
});

test("reports a registry's error message", async () => {
  await registry.close();
  await expect(add("guest", `${registry.host}/team/guest`)).rejects.toThrow(/refused|connect/);
  registry = await startRegistry(layout);
  const digest = `sha256:${"0".repeat(64)}`;
  await expect(add("guest", `${registry.host}/none@${digest}`)).rejects.toThrow("not found");
});

test("does not remove images that pods need", async () => {
  await expect(removeImage(dataDir, "localhost/patchbay/pause:dev")).rejects.toMatchObject({
    code: "IMAGE_IN_USE",
  });
});

test("a directory that contains only images belongs to the machine and is purged", async () => {
  await down({ dataDir, purge: true, print: () => undefined });
  expect(await files.exists(dataDir)).toBe(false);
});

test("does not store images in a foreign directory, which would be deleted with the machine", async () => {
  await files.ensureDirectory(join(dataDir, "photographs"));
  await expect(add("guest", source)).rejects.toMatchObject({ code: "STANDALONE_NOT_OURS" });
  expect(await files.list(dataDir)).toEqual(["photographs"]);
});
