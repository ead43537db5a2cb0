// SPDX-License-Identifier: Apache-2.0
// Builds reproducible OCI images with one layer. Source: OCI image specification 1.0.
import { createHash } from "node:crypto";
import { dirname, join } from "node:path";
import type { Files, ProcessRunner } from "@patchbay/core/interfaces";
import { runSourceProgram } from "./run-on-source.ts";

interface Blob {
  readonly digest: string;
  readonly bytes: number;
}

type LayoutFiles = Readonly<Record<string, string>>;

const MEDIA_TYPE_PREFIX = "application/vnd.oci.image";

function buildBlobPath(digest: string): string {
  return `blobs/${digest.replace(":", "/")}`;
}

function toDescriptor(kind: string, { digest, bytes }: Blob): object {
  return { mediaType: `${MEDIA_TYPE_PREFIX}.${kind}`, digest, size: bytes };
}

/** Builds the files of an OCI layout, except for the layer, which the caller stores at {@link buildBlobPath}. */
export function buildLayoutFiles(
  layer: Blob,
  architecture: string,
  computeDigest: (text: string) => string,
): LayoutFiles {
  const toBlob = (text: string): Blob => ({
    digest: computeDigest(text),
    bytes: new TextEncoder().encode(text).length,
  });
  const config = JSON.stringify({
    architecture,
    os: "linux",
    config: {},
    rootfs: { type: "layers", diff_ids: [layer.digest] },
  });
  const manifest = JSON.stringify({
    schemaVersion: 2,
    mediaType: `${MEDIA_TYPE_PREFIX}.manifest.v1+json`,
    config: toDescriptor("config.v1+json", toBlob(config)),
    layers: [toDescriptor("layer.v1.tar", layer)],
  });
  const manifests = [toDescriptor("manifest.v1+json", toBlob(manifest))];
  return {
    "oci-layout": JSON.stringify({ imageLayoutVersion: "1.0.0" }),
    "index.json": JSON.stringify({ schemaVersion: 2, manifests }),
    [buildBlobPath(computeDigest(config))]: config,
    [buildBlobPath(computeDigest(manifest))]: manifest,
  };
}

const TEXT_MODE = 0o644;

/** tar flags that make the archive depend only on the names, contents and executable bits of files. */
const REPRODUCIBLE_FLAGS = [
  "--sort=name",
  "--mtime=@0",
  "--numeric-owner",
  // All users may read the files. Set-uid and set-gid bits are removed.
  "--mode=a+rX,go-w,ug-s",
  "--format=posix",
  "--pax-option=delete=atime,delete=ctime,exthdr.name=%d/PaxHeaders/%f",
];

interface DirectoryImage {
  /** Absolute path of the directory whose content becomes the root of the image. */
  readonly source: string;
  /** Absolute path of a temporary directory. It must not exist before the call, and the caller removes it afterwards. */
  readonly workDirectory: string;
  /** Architecture in Go's notation, for example `amd64`. */
  readonly architecture: string;
  /** UID and GID of the files. Defaults to 0. */
  readonly owner?: number;
}

interface Deps {
  readonly files: Files;
  readonly runner: ProcessRunner;
}

async function createLayer(
  deps: Deps,
  { source, owner = 0 }: DirectoryImage,
  file: string,
): Promise<Blob> {
  const ownerFlags = [`--owner=${String(owner)}`, `--group=${String(owner)}`];
  await runSourceProgram(deps, source, [
    "tar",
    ...REPRODUCIBLE_FLAGS,
    ...ownerFlags,
    "-cf",
    file,
    "-C",
    source,
    ".",
  ]);
  const checksum = await runSourceProgram(deps, source, ["sha256sum", "--zero", file]);
  const bytes = Number(await runSourceProgram(deps, source, ["stat", "--format=%s", file]));
  return { digest: `sha256:${checksum.split(" ")[0] ?? ""}`, bytes };
}

function computeDigest(text: string): string {
  return `sha256:${createHash("sha256").update(text).digest("hex")}`;
}

/** Builds an OCI archive of `image.source`, and returns its path. @throws AppError with IMAGE_SOURCE_INVALID if tar cannot read it */
export async function archiveDirectory(deps: Deps, image: DirectoryImage): Promise<string> {
  const { source, workDirectory, architecture } = image;
  const layout = join(workDirectory, "layout");
  await deps.files.ensureDirectory(join(layout, "blobs/sha256"));
  const layerFile = join(workDirectory, "layer.tar");
  const layer = await createLayer(deps, image, layerFile);
  await runSourceProgram(deps, source, [
    "mv",
    layerFile,
    join(layout, buildBlobPath(layer.digest)),
  ]);
  for (const [path, text] of Object.entries(buildLayoutFiles(layer, architecture, computeDigest))) {
    await deps.files.ensureDirectory(dirname(join(layout, path)));
    await deps.files.writeAtomic(join(layout, path), text, TEXT_MODE);
  }
  const archive = join(workDirectory, "image.tar");
  // tar deletes each file after archiving it, because the disk may lack space for two copies of a disk image.
  const moveFlags = ["--remove-files", "-C", layout, "oci-layout", "index.json", "blobs"];
  await runSourceProgram(deps, source, ["tar", "-cf", archive, ...moveFlags]);
  return archive;
}
