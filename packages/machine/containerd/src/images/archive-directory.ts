// SPDX-License-Identifier: Apache-2.0
// How does a directory become an image? One layer by tar, described by us: the same files give the same digest.
import { createHash } from "node:crypto";
import { dirname, join } from "node:path";
import type { Files, ProcessRunner } from "@patchbay/core/ports";
import { blobPath, layoutFilesOf, type Blob } from "./oci-image.ts";
import { runOnSource } from "./run-on-source.ts";

const TEXT_MODE = 0o644;

/** Of the files nothing counts but their names, contents and whether they may be executed. */
const SAME_EACH_TIME = [
  "--sort=name",
  "--mtime=@0",
  "--numeric-owner",
  // Users of pods read them, nobody writes them, and none of them gives rights.
  "--mode=a+rX,go-w,ug-s",
  "--format=posix",
  "--pax-option=delete=atime,delete=ctime,exthdr.name=%d/PaxHeaders/%f",
];

/** What is to be made. */
export interface DirectoryImage {
  /** Absolute; its content is the root of the image. */
  readonly source: string;
  /** Absolute, not there yet: the archive and what it is made of; the caller removes it. */
  readonly workDirectory: string;
  /** As Go names it, for example `amd64`. */
  readonly architecture: string;
  /** User and group of all files; root's when absent. */
  readonly owner?: number;
}

interface Deps {
  readonly files: Files;
  readonly runner: ProcessRunner;
}

async function makeLayer(
  deps: Deps,
  { source, owner = 0 }: DirectoryImage,
  file: string,
): Promise<Blob> {
  const owned = [`--owner=${String(owner)}`, `--group=${String(owner)}`];
  await runOnSource(deps, source, [
    "tar",
    ...SAME_EACH_TIME,
    ...owned,
    "-cf",
    file,
    "-C",
    source,
    ".",
  ]);
  const sum = await runOnSource(deps, source, ["sha256sum", "--zero", file]);
  const bytes = Number(await runOnSource(deps, source, ["stat", "--format=%s", file]));
  return { digest: `sha256:${sum.split(" ")[0] ?? ""}`, bytes };
}

function digestOf(text: string): string {
  return `sha256:${createHash("sha256").update(text).digest("hex")}`;
}

/**
 * Makes an OCI archive of a directory, and returns its path.
 * @throws AppError with IMAGE_SOURCE_INVALID when tar cannot read it
 */
export async function archiveDirectory(deps: Deps, image: DirectoryImage): Promise<string> {
  const { source, workDirectory, architecture } = image;
  const layout = join(workDirectory, "layout");
  await deps.files.ensureDirectory(join(layout, "blobs/sha256"));
  const layerFile = join(workDirectory, "layer.tar");
  const layer = await makeLayer(deps, image, layerFile);
  await runOnSource(deps, source, ["mv", layerFile, join(layout, blobPath(layer.digest))]);
  for (const [path, text] of Object.entries(layoutFilesOf(layer, architecture, digestOf))) {
    await deps.files.ensureDirectory(dirname(join(layout, path)));
    await deps.files.writeAtomic(join(layout, path), text, TEXT_MODE);
  }
  const archive = join(workDirectory, "image.tar");
  // A disk may be as large as what is free: nothing of it is there twice for longer than needed.
  const moved = ["--remove-files", "-C", layout, "oci-layout", "index.json", "blobs"];
  await runOnSource(deps, source, ["tar", "-cf", archive, ...moved]);
  return archive;
}
