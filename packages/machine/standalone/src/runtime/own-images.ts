// SPDX-License-Identifier: Apache-2.0
// The images that every pod of this machine needs: from archives beside the program, imported when they are others.
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { names } from "@patchbay/api";
import { findImage, importImage, type ImageDeps } from "@patchbay/containerd";
import { AppError } from "@patchbay/core";
import { numberOf, readFields, textOf } from "../data-dir/json.ts";
import { containerdLayoutOf, type RuntimeDeps } from "./own-containerd.ts";

/** Made by hack/images/make-images: `NAME.tar`, and `NAME.json` that says what is in it. */
const ARCHIVES = fileURLToPath(new URL("../../../../../.cache/images", import.meta.url));
const MAKE = "hack/images/make-images";
const MEGABYTE = 1_000_000;

/** What is needed, and from which archive it comes. */
const OWN_IMAGES: readonly (readonly [archive: string, reference: string])[] = [
  ["pause", names.PAUSE_IMAGE],
  ["virt-launcher", names.LAUNCHER_IMAGE],
];

/** Tells of a step. */
type Say = (text: string) => Promise<void>;

interface Archive {
  readonly digest: string;
  readonly bytes: number;
}

async function readArchive({ files }: ImageDeps, name: string): Promise<Archive | undefined> {
  const fields = await readFields(files, join(ARCHIVES, `${name}.json`));
  const digest = textOf(fields, "digest");
  return digest === "" ? undefined : { digest, bytes: numberOf(fields, "bytes") ?? 0 };
}

/** Brings one image up to date. */
async function keepImage(
  deps: ImageDeps,
  [name, reference]: readonly [archive: string, reference: string],
  say: Say,
): Promise<void> {
  const there = await findImage(deps, reference);
  const archive = await readArchive(deps, name);
  if (archive === undefined && there === undefined) {
    const reason = `image ${reference} is not on this machine, nor is an archive of it; make one with: ${MAKE}`;
    throw new AppError("RUNTIME_START_FAILED", { component: "containerd", reason });
  }
  if (archive === undefined || there?.digest === archive.digest) return;
  await say(`importing image ${name}, ${String(Math.ceil(archive.bytes / MEGABYTE))} MB`);
  await importImage(deps, { archive: join(ARCHIVES, `${name}.tar`), id: name }, reference);
  await say(`image ${name} is there`);
}

/**
 * Imports what is not there as the archives have it; without an archive, what is there stays.
 * @throws AppError with RUNTIME_START_FAILED when an image is neither there nor in an archive
 */
export async function keepOwnImages(runtime: RuntimeDeps, say: Say): Promise<void> {
  const deps = { ...runtime, layout: containerdLayoutOf(runtime.paths) };
  for (const own of OWN_IMAGES) await keepImage(deps, own, say);
}
