// SPDX-License-Identifier: Apache-2.0
// A guest trial in a container of the launcher image. Needs root, containerd, runc and both images; emulates the guest.
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { names } from "@patchbay/api";
import { ctr, mountsBelow, removeCgroups } from "@patchbay/containerd";
import { createFiles, createProcessRunner } from "@patchbay/os";
import { buildCgroupRoot } from "../../../packages/standalone/supervisor/src/runtime/own-containerd.ts";
import { afterAll, beforeAll, expect, test } from "vitest";
import { addImage } from "../../../packages/standalone/supervisor/src/images/images.ts";
import { withContainerd } from "../../../packages/standalone/supervisor/src/images/with-containerd.ts";
import {
  listBootImages,
  bootGuest,
} from "../../../packages/standalone/supervisor/src/runtime/kvm-probe.ts";

const ROOT = join(import.meta.dirname, "../../..");
const TRIAL = { accelerator: "tcg", architecture: process.arch, timeoutMs: 60_000 } as const;
const files = createFiles();
let work: string;
let dataDir: string;

async function add(name: string, source: string): Promise<void> {
  await addImage({ dataDir, name, source, print: () => undefined });
}

/** Results of trying each added image. */
function tryAll() {
  return withContainerd(dataDir, async (access) => {
    const outcomes = [];
    for (const image of await listBootImages(access)) {
      outcomes.push([image.name, await bootGuest(access, image, TRIAL)]);
    }
    const remaining = await ctr(access, ["containers", "ls", "--quiet"]);
    return { outcomes, left: remaining };
  });
}

beforeAll(async () => {
  work = await mkdtemp(join(tmpdir(), "trial-"));
  dataDir = join(work, "data");
  await add(names.LAUNCHER_IMAGE, join(ROOT, ".cache/images/virt-launcher.tar"));
  await mkdir(join(work, "broken"));
  for (const name of ["vmlinuz", "initrd"]) await writeFile(join(work, "broken", name), "text");
  await mkdir(join(work, "other"));
  await writeFile(join(work, "other", "file"), "text");
  await add("broken", join(work, "broken"));
  await add("guest", join(ROOT, ".cache/guest"));
  await add("other", join(work, "other"));
}, 120_000);
afterAll(async () => {
  await removeCgroups({ files, runner: createProcessRunner() }, buildCgroupRoot({ dataDir }));
  await rm(work, { recursive: true });
});

test("boots a guest, reports a broken kernel, skips images without one, and leaves nothing", async () => {
  const { outcomes, left: remaining } = await tryAll();
  expect(outcomes).toEqual([
    ["docker.io/library/broken:latest", { problem: expect.stringMatching(/\S/) as unknown }],
    ["docker.io/library/guest:latest", {}],
    ["docker.io/library/other:latest", undefined],
  ]);
  expect(remaining).toBe("");
  expect(mountsBelow((await files.readText("/proc/self/mountinfo")) ?? "", dataDir)).toEqual([]);
}, 150_000);
