// SPDX-License-Identifier: Apache-2.0
// Images in the containerd of a machine: added from directories, disks, archives and registries, listed, removed.
import { randomUUID } from "node:crypto";
import { join, resolve } from "node:path";
import { names } from "@patchbay/api";
import {
  archiveDirectory,
  findImage,
  fullReference,
  importImage,
  listImages,
  measureImage,
  pullImage,
  PullProgress,
  removeImage,
  shortReference,
} from "@patchbay/containerd";
import { AppError } from "@patchbay/core";
import type { ProcessRunner } from "@patchbay/core/ports";
import { goArchitecture } from "../config.ts";
import type { Print } from "../supervisor/follow.ts";
import { copyDisk, inMib } from "./disk/copy-disk.ts";
import { sourceOf, type ImageSource } from "./source.ts";
import type { ContainerdAccess } from "./with-containerd.ts";

const STAT_MS = 5000;

/** Images that every pod of a machine needs. */
const OWN_IMAGES: readonly string[] = [names.PAUSE_IMAGE, names.LAUNCHER_IMAGE];

/** An image of the machine. */
export interface MachineImage {
  /** As VMs name it. */
  readonly name: string;
  /** As a registry would name it. */
  readonly reference: string;
  /** Of its manifest. */
  readonly digest: string;
  /** As a registry would send it; absent when it has nothing for this machine. */
  readonly bytes?: number;
}

/** An image to add, from a source. */
export interface NewImage {
  readonly name: string;
  /** A directory, a disk's file, an archive, or a reference of a registry. */
  readonly source: string;
  /** Gets the steps of a transfer, for a person. */
  readonly print: Print;
  /** Ends a transfer. */
  readonly signal?: AbortSignal;
}

async function measure(
  access: ContainerdAccess,
  { name, digest }: { readonly name: string; readonly digest: string },
): Promise<MachineImage> {
  const bytes = await measureImage(access, digest, goArchitecture());
  const image = { name: shortReference(name), reference: name, digest };
  return { ...image, ...(bytes !== undefined && { bytes }) };
}

/** All images, sorted by reference. */
export async function listMeasured(access: ContainerdAccess): Promise<readonly MachineImage[]> {
  const records = await listImages(access);
  return Promise.all(records.map((record) => measure(access, record)));
}

/** Names of the images that people added. */
export async function listAdded(access: ContainerdAccess): Promise<readonly string[]> {
  const records = await listImages(access);
  const others = records.filter(({ name }) => !OWN_IMAGES.includes(name));
  return others.map(({ name }) => shortReference(name));
}

/** What is at a path, in the words of stat; undefined: nothing. */
async function kindOfPath({ runner }: ContainerdAccess, path: string): Promise<string | undefined> {
  const argv = ["stat", "--dereference", "--format=%F", path] as const;
  const { exitCode, stdout } = await runner.run({ argv, timeoutMs: STAT_MS });
  return exitCode === 0 ? stdout.trim() : undefined;
}

/** Gives `use` a directory of its own, which is not there yet, and whose end is the end of the call. */
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
    const image = { source: path, workDirectory, architecture: goArchitecture() };
    await importImage(access, { archive: await archiveDirectory(access, image), id }, name);
  });
}

/** Ends its programs at the signal. */
function interruptible(runner: ProcessRunner, signal: AbortSignal | undefined): ProcessRunner {
  if (signal === undefined) return runner;
  return {
    run: (command) => runner.run({ ...command, signal }),
    endFamily: (family) => runner.endFamily(family),
  };
}

async function addDisk(
  access: ContainerdAccess,
  path: string,
  { source, print, name, signal }: NewImage,
): Promise<void> {
  const deps = { files: access.files, runner: interruptible(access.runner, signal) };
  await withWorkDirectory(access, async (workDirectory, id) => {
    const root = join(workDirectory, "root");
    print(`copying ${path}`);
    const { format, bytes, virtualBytes } = await copyDisk(deps, { source, path, root });
    print(
      `${format}, ${inMib(bytes)}; the guest sees ${inMib(virtualBytes)}: making an image of it`,
    );
    const image = { source: root, workDirectory, architecture: goArchitecture() };
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
      print(`making an image of ${source.path}`);
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

/**
 * Adds an image, in the place of what had the name.
 * @throws AppError with IMAGE_NAME_INVALID, IMAGE_SOURCE_INVALID, CONTAINERD_FAILED
 */
export async function addTo(access: ContainerdAccess, image: NewImage): Promise<MachineImage> {
  const name = fullReference(image.name);
  const path = resolve(image.source);
  const source = sourceOf(image.source, path, await kindOfPath(access, path));
  await addFrom(access, source, { ...image, name });
  const added = await findImage(access, name);
  if (added === undefined) throw new AppError("RUNTIME_IMAGE_MISSING", { image: name });
  return measure(access, added);
}

/**
 * Whole reference of an image that may be removed.
 * @throws AppError with IMAGE_NAME_INVALID, IMAGE_IN_USE
 */
export function removableReference(name: string): string {
  const reference = fullReference(name);
  if (!OWN_IMAGES.includes(reference)) return reference;
  throw new AppError("IMAGE_IN_USE", { image: name, users: "every pod of this machine" });
}

/**
 * Removes an image.
 * @throws AppError with RUNTIME_IMAGE_MISSING, CONTAINERD_FAILED, and what removableReference throws
 */
export async function removeFrom(access: ContainerdAccess, name: string): Promise<void> {
  const reference = removableReference(name);
  if ((await findImage(access, reference)) === undefined) {
    throw new AppError("RUNTIME_IMAGE_MISSING", { image: name });
  }
  await removeImage(access, reference);
}
