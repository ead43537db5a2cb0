// SPDX-License-Identifier: Apache-2.0
import {
  fullReference,
  archiveDirectory,
  findImage,
  importImage,
  listImages,
  measureImage,
  pullImage,
  PullProgress,
  removeImage,
  shortReference,
} from "@patchbay/containerd";
import { AppError } from "@patchbay/base";
import { randomUUID } from "node:crypto";
import { join, resolve } from "node:path";
import { names } from "@patchbay/api";
import type { ProcessRunner } from "@patchbay/core/interfaces";
import { readGoArchitecture } from "../config.ts";
import type { Print } from "../supervisor/follow.ts";
import { copyDisk, printMib } from "./disk.ts";
import type { ContainerdAccess } from "./with-containerd.ts";

type ImageSource =
  | { readonly kind: "directory" | "archive" | "disk"; readonly path: string }
  | { readonly kind: "registry"; readonly reference: string };

/** Pattern of sources that are paths and cannot be registry references. */
const PATH_PATTERN = /^(\.{0,2}\/|\.{1,2}$|~)/;
/** Pattern of the names of disk files. The format is detected from the file's content. */
const DISK_PATTERN = /\.(qcow2?|raw|img|iso|vmdk|vdi|vhdx?|vpc|qed)$/i;
const COMPRESSED_PATTERN = /\.(qcow2?|raw|img|iso)\.(gz|xz|zst|bz2)$/i;
const UNPACKERS: Readonly<Record<string, string>> = {
  gz: "gunzip",
  xz: "unxz",
  zst: "unzstd",
  bz2: "bunzip2",
};

function classifyFile(source: string, path: string): ImageSource {
  const [, , compression] = COMPRESSED_PATTERN.exec(source) ?? [];
  if (compression !== undefined) {
    const unpacker = UNPACKERS[compression.toLowerCase()] ?? "";
    const reason = `it is compressed; unpack it with: ${unpacker} ${source}`;
    throw new AppError("IMAGE_SOURCE_INVALID", { source, reason });
  }
  return { kind: DISK_PATTERN.test(source) ? "disk" : "archive", path };
}

/**
 * Classifies a source. `kind` is the type of the file at `path` as stat(1) prints it; undefined if `path` does not exist.
 * @throws AppError with IMAGE_SOURCE_INVALID, IMAGE_NAME_INVALID
 */
export function classifySource(
  source: string,
  path: string,
  kind: string | undefined,
): ImageSource {
  if (kind === "directory") return { kind, path };
  if (kind === "regular file" || kind === "regular empty file") return classifyFile(source, path);
  if (kind !== undefined) {
    throw new AppError("IMAGE_SOURCE_INVALID", { source, reason: `it is a ${kind}` });
  }
  if (PATH_PATTERN.test(source) || DISK_PATTERN.test(source) || COMPRESSED_PATTERN.test(source)) {
    throw new AppError("IMAGE_SOURCE_INVALID", { source, reason: "there is no such file" });
  }
  return { kind: "registry", reference: fullReference(source) };
}

const STAT_TIMEOUT_MS = 5000;

const OWN_IMAGES: readonly string[] = [names.PAUSE_IMAGE, names.LAUNCHER_IMAGE];

export interface MachineImage {
  readonly name: string;
  readonly reference: string;
  readonly digest: string;
  /** Compressed size in bytes; unset if the image has no variant for this machine's architecture. */
  readonly bytes?: number;
}

export interface NewImage {
  readonly name: string;
  /** Path of a directory, disk file or archive, or a registry reference. */
  readonly source: string;
  readonly print: Print;
  readonly signal?: AbortSignal;
}

async function describeImage(
  access: ContainerdAccess,
  { name, digest }: { readonly name: string; readonly digest: string },
): Promise<MachineImage> {
  const bytes = await measureImage(access, digest, readGoArchitecture());
  const image = { name: shortReference(name), reference: name, digest };
  return { ...image, ...(bytes !== undefined && { bytes }) };
}

export async function listImagesWithSizes(
  access: ContainerdAccess,
): Promise<readonly MachineImage[]> {
  const records = await listImages(access);
  return Promise.all(records.map((record) => describeImage(access, record)));
}

export async function listAddedNames(access: ContainerdAccess): Promise<readonly string[]> {
  const records = await listImages(access);
  const userImages = records.filter(({ name }) => !OWN_IMAGES.includes(name));
  return userImages.map(({ name }) => shortReference(name));
}

/** Returns the type of the file in the notation of stat(1); undefined if the path does not exist. */
async function findPathKind(
  { runner }: ContainerdAccess,
  path: string,
): Promise<string | undefined> {
  const argv = ["stat", "--dereference", "--format=%F", path] as const;
  const { exitCode, stdout } = await runner.run({ argv, timeoutMs: STAT_TIMEOUT_MS });
  return exitCode === 0 ? stdout.trim() : undefined;
}

/** Calls `use` with the path of a work directory, which `use` may create. Removes the directory afterwards. */
async function withWorkDirectory(
  { files, layout }: ContainerdAccess,
  use: (workDirectory: string, id: string) => Promise<void>,
): Promise<void> {
  const id = randomUUID();
  const workDirectory = join(layout.directory, `image-${id}`);
  try {
    await use(workDirectory, id);
  } finally {
    await files.remove(workDirectory);
  }
}

async function addDirectory(access: ContainerdAccess, path: string, name: string): Promise<void> {
  await withWorkDirectory(access, async (workDirectory, id) => {
    const image = { source: path, workDirectory, architecture: readGoArchitecture() };
    await importImage(access, { archive: await archiveDirectory(access, image), id }, name);
  });
}

function withSignal(runner: ProcessRunner, signal: AbortSignal | undefined): ProcessRunner {
  if (signal === undefined) return runner;
  return {
    run: (command) => runner.run({ ...command, signal }),
    killProcessFamily: (family) => runner.killProcessFamily(family),
  };
}

async function addDisk(
  access: ContainerdAccess,
  path: string,
  { source, print, name, signal }: NewImage,
): Promise<void> {
  const deps = { files: access.files, runner: withSignal(access.runner, signal) };
  await withWorkDirectory(access, async (workDirectory, id) => {
    const root = join(workDirectory, "root");
    print(`copying ${path}`);
    const { format, bytes, virtualBytes } = await copyDisk(deps, { source, path, root });
    print(
      `${format}, ${printMib(bytes)}; the guest sees ${printMib(virtualBytes)}: building an image`,
    );
    const image = { source: root, workDirectory, architecture: readGoArchitecture() };
    const owner = names.LAUNCHER_UID;
    const archive = await archiveDirectory(deps, { ...image, owner });
    await access.files.remove(root);
    print("importing it");
    await importImage(access, { archive, id }, name);
  });
}

async function addFrom(
  access: ContainerdAccess,
  source: ImageSource,
  image: NewImage,
): Promise<void> {
  const { print, signal, name } = image;
  switch (source.kind) {
    case "directory":
      print(`building an image of ${source.path}`);
      await addDirectory(access, source.path, name);
      break;
    case "disk":
      await addDisk(access, source.path, image);
      break;
    case "archive":
      print(`importing ${source.path}`);
      await importImage(access, { archive: source.path, id: randomUUID() }, name);
      break;
    case "registry": {
      print(`fetching ${source.reference}`);
      const progress = new PullProgress(print);
      const options = {
        onOutput: (text: string) => {
          progress.read(text);
        },
        ...(signal !== undefined && { signal }),
      };
      await pullImage(access, { reference: source.reference, name }, options);
    }
  }
}

/** Adds an image, or replaces the one of that name. @throws AppError with IMAGE_NAME_INVALID, IMAGE_SOURCE_INVALID, CONTAINERD_FAILED */
export async function addImageTo(access: ContainerdAccess, image: NewImage): Promise<MachineImage> {
  const name = fullReference(image.name);
  const path = resolve(image.source);
  const source = classifySource(image.source, path, await findPathKind(access, path));
  await addFrom(access, source, { ...image, name });
  const addedImage = await findImage(access, name);
  if (addedImage === undefined) throw new AppError("RUNTIME_IMAGE_MISSING", { image: name });
  return describeImage(access, addedImage);
}

/** @throws AppError with IMAGE_NAME_INVALID, IMAGE_IN_USE */
export function expandRemovableReference(name: string): string {
  const reference = fullReference(name);
  if (!OWN_IMAGES.includes(reference)) return reference;
  throw new AppError("IMAGE_IN_USE", { image: name, users: "every pod of this machine" });
}

/** @throws AppError with RUNTIME_IMAGE_MISSING, IMAGE_NAME_INVALID, IMAGE_IN_USE, CONTAINERD_FAILED */
export async function removeImageFrom(access: ContainerdAccess, name: string): Promise<void> {
  const reference = expandRemovableReference(name);
  if ((await findImage(access, reference)) === undefined) {
    throw new AppError("RUNTIME_IMAGE_MISSING", { image: name });
  }
  await removeImage(access, reference);
}
