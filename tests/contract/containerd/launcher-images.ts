// SPDX-License-Identifier: Apache-2.0
// A containerd that has the images of launchers' pods when it starts: they are unpacked once, and copied from then on.
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
import { createFiles, createProcessRunner, readBootId } from "@patchbay/os";
import { directoriesOf, pathsOf } from "@patchbay/supervisor/testing";
import { startContainerdBench, type BenchOptions, type ContainerdBench } from "./bench.ts";

const ROOT = resolve(import.meta.dirname, "../../..");
const ARCHIVES = join(ROOT, ".cache/images");
const STORES = join(ROOT, ".cache/containerd");
const IMAGES = ["pause", "virt-launcher"];
const files = createFiles();
const runner = createProcessRunner();

/** Other images, another containerd and layers that lie otherwise on disk make another store. */
function nameOfStore(snapshotter: string): string {
  const hash = createHash("sha256");
  hash.update(execFileSync("containerd", ["--version"]));
  for (const image of IMAGES) hash.update(readFileSync(join(ARCHIVES, `${image}.json`)));
  return `${snapshotter}-${hash.digest("hex").slice(0, 16)}`;
}

/** Unpacks the images into a containerd that only does this, and keeps what it has on disk. */
async function makeStore(name: string): Promise<void> {
  const bench = await startContainerdBench();
  const made = join(STORES, `${name}.${String(process.pid)}`);
  try {
    const { layout } = bench;
    for (const id of IMAGES) {
      const archive = join(ARCHIVES, `${id}.tar`);
      await importImage({ files, runner, layout }, { archive, id }, `localhost/patchbay/${id}:dev`);
    }
    await bench.end("SIGTERM");
    mkdirSync(STORES, { recursive: true });
    execFileSync("cp", ["-a", layout.root, made]);
    // Somebody else may have been quicker: theirs stays.
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

/** Whether a file can have another name in that directory: not on another mount, though it may be of the same file system. */
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
 * What containerd writes lies right below the directory of one of its plugins; layers and blobs never change, and are the
 * same files under another name: for 1,100 of them that takes 0.4 s of a processor where a copy takes 2.3.
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

/** Gives a standalone machine that has not been up the images, so that its first `up` imports none of them. */
export async function linkLauncherImages(dataDir: string): Promise<void> {
  const paths = pathsOf(dataDir);
  for (const [path, mode] of directoriesOf(paths)) await files.ensureDirectory(path, mode);
  const layout = buildLayout({
    directory: paths.containerd,
    runDirectory: join(paths.run, "containerd"),
    cniConfDirectory: paths.cniConf,
  });
  const bootId = await readBootId(files);
  await prepareContainerd({ files, runner, layout }, { sandboxImage: names.PAUSE_IMAGE, bootId });
  await copyStore(layout);
}

/** Starts a containerd with the images `pause` and `virt-launcher`, as `hack/images/make-images` makes them. */
export function startLauncherContainerd(options: BenchOptions): Promise<ContainerdBench> {
  return startContainerdBench({ ...options, fill: copyStore });
}
