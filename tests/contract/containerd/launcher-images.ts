// SPDX-License-Identifier: Apache-2.0
// A containerd that starts with the launcher images: unpacked once, and copied from then on.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  existsSync,
  globSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  type Dirent,
} from "node:fs";
import { join, relative, resolve } from "node:path";
import { names } from "@patchbay/api";
import {
  importImage,
  buildLayout,
  prepareContainerd,
  readSnapshotter,
  type ContainerdLayout,
} from "@patchbay/containerd";
import { createClock, createFiles, createProcessRunner, readBootId } from "@patchbay/os";
import { listDirectories, buildPaths } from "@patchbay/supervisor/testing";
import { startContainerdBench, type BenchOptions, type ContainerdBench } from "./bench.ts";

const ROOT = resolve(import.meta.dirname, "../../..");
const ARCHIVES = join(ROOT, ".cache/images");
const STORES = join(ROOT, ".cache/containerd");
const IMAGES = ["pause", "virt-launcher"];
const files = createFiles();
const runner = createProcessRunner();

/** Other images, another containerd or another disk layout get another store. */
function nameOfStore(snapshotter: string): string {
  const hash = createHash("sha256");
  hash.update(execFileSync("containerd", ["--version"]));
  for (const image of IMAGES) hash.update(readFileSync(join(ARCHIVES, `${image}.json`)));
  return `${snapshotter}-${hash.digest("hex").slice(0, 16)}`;
}

/** Unpacks the images in a temporary containerd and stores its files. */
async function makeStore(name: string): Promise<void> {
  const bench = await startContainerdBench();
  const made = join(STORES, `${name}.${String(process.pid)}`);
  try {
    const { layout } = bench;
    for (const id of IMAGES) {
      const archive = join(ARCHIVES, `${id}.tar`);
      await importImage(
        { clock: createClock(), files, runner, layout },
        { archive, id },
        `localhost/patchbay/${id}:dev`,
      );
    }
    await bench.end("SIGTERM");
    mkdirSync(STORES, { recursive: true });
    execFileSync("cp", ["-a", layout.root, made]);
    // A concurrent process was quicker: its store stays.
    execFileSync("mv", ["--no-clobber", "--no-target-directory", made, join(STORES, name)]);
  } finally {
    rmSync(made, { recursive: true, force: true });
    await bench.close();
  }
  const [snapshotter = ""] = name.split("-");
  for (const old of readdirSync(STORES)) {
    const isOlder = old.startsWith(snapshotter) && !old.startsWith(name);
    if (isOlder) rmSync(join(STORES, old), { recursive: true, force: true });
  }
}

/** Whether a file can be hard-linked into that directory, which fails across mounts, even of the same file system. */
function canLink(file: Dirent | undefined, directory: string): boolean {
  if (file === undefined) return false;
  const name = join(directory, file.name);
  try {
    linkSync(join(file.parentPath, file.name), name);
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "EXDEV") return false;
    throw error;
  }
  rmSync(name);
  return true;
}

/**
 * containerd writes directly below the directories of its plugins; layers and blobs never change and are hard-linked:
 * 1,100 links take 0.4 s of processor time, copies 2.3 s.
 */
function copyDirectory(from: string, to: string): void {
  const written = globSync("*/*", { cwd: from, withFileTypes: true }).filter((at) => at.isFile());
  if (!canLink(written[0], to)) {
    execFileSync("cp", ["-a", `${from}/.`, to]);
    return;
  }
  execFileSync("cp", ["-a", "--link", `${from}/.`, to]);
  for (const { parentPath, name } of written) {
    const copy = join(to, relative(from, parentPath), name);
    execFileSync("cp", ["-a", "--remove-destination", join(parentPath, name), copy]);
  }
}

async function copyStore(layout: ContainerdLayout): Promise<void> {
  execFileSync(join(ROOT, "hack/images/make-images"), IMAGES, { stdio: "pipe" });
  const name = nameOfStore(await readSnapshotter(files, layout));
  if (!existsSync(join(STORES, name))) await makeStore(name);
  copyDirectory(join(STORES, name), layout.root);
}

/** Adds the images to a new standalone machine, so that its first `up` imports none. */
export async function linkLauncherImages(dataDir: string): Promise<void> {
  const paths = buildPaths(dataDir);
  for (const [path, mode] of listDirectories(paths)) await files.ensureDirectory(path, mode);
  const layout = buildLayout({
    directory: paths.containerd,
    runDirectory: join(paths.run, "containerd"),
    cniConfDirectory: paths.cniConf,
  });
  const bootId = await readBootId(files);
  await prepareContainerd({ files, runner, layout }, { sandboxImage: names.PAUSE_IMAGE, bootId });
  await copyStore(layout);
}

/** Starts a containerd with the images `pause` and `virt-launcher` of `hack/images/make-images`. */
export function startLauncherContainerd(options: BenchOptions): Promise<ContainerdBench> {
  return startContainerdBench({ ...options, fill: copyStore });
}
