// SPDX-License-Identifier: Apache-2.0
// How do images come into containerd and go? By its own tool, under whole references.
import { AppError } from "@patchbay/core";
import type { Files } from "@patchbay/core/ports";
import { ctr, type CtrDeps } from "../ctr.ts";
import type { ContainerdLayout } from "../layout.ts";
import { markAdded } from "./added.ts";
import {
  namedRecords,
  namesToRemove,
  orphansOf,
  parseRecords,
  type ImageRecord,
} from "./records.ts";

/** An image may be gigabytes on a slow disk or line; milliseconds. */
const TRANSFER_MS = 3_600_000;
/** Before what an archive's manifests are named while they are imported; no registry is there. */
const IMPORT_BASE = "import.invalid";

/** Names of an import do not meet another's. */
export interface ImportSource {
  /** Absolute path of an OCI or docker archive. */
  readonly archive: string;
  /** Tells this import from others that go on at the same time. */
  readonly id: string;
}

async function listRecords(deps: CtrDeps): Promise<readonly ImageRecord[]> {
  return parseRecords(await ctr(deps, ["images", "ls"]));
}

async function removeRecords(deps: CtrDeps, names: readonly string[]): Promise<void> {
  if (names.length > 0) await ctr(deps, ["images", "rm", "--sync", ...names]);
}

async function removeOrphans(deps: CtrDeps): Promise<void> {
  await removeRecords(deps, orphansOf(await listRecords(deps)));
}

/** Images by the names that people gave them, sorted. */
export async function listImages(deps: CtrDeps): Promise<readonly ImageRecord[]> {
  return namedRecords(await listRecords(deps)).toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

/** The image of that whole reference. */
export async function findImage(deps: CtrDeps, name: string): Promise<ImageRecord | undefined> {
  return (await listImages(deps)).find((image) => image.name === name);
}

/** Which layers are on disk, and how, is told to each call that unpacks. */
export async function readSnapshotter(files: Files, layout: ImageDeps["layout"]): Promise<string> {
  const text = (await files.readText(layout.config)) ?? "";
  return /^snapshotter = "(\w+)"$/m.exec(text)?.[1] ?? "overlayfs";
}

async function snapshotterFlags({ files, layout }: ImageDeps): Promise<readonly string[]> {
  return ["--snapshotter", await readSnapshotter(files, layout)];
}

/** Containerd's tool, and files to ask how layers lie on disk. */
export interface ImageDeps extends CtrDeps {
  readonly files: Files;
  readonly layout: Pick<ContainerdLayout, "socket" | "config">;
}

/** Gives what `from` names another name too, in the place of what had it, and marks that as added here. */
async function rename(deps: CtrDeps, from: string, name: string): Promise<void> {
  if (from !== name) await ctr(deps, ["images", "tag", "--force", from, name]);
  const image = await findImage(deps, name);
  if (image !== undefined) await markAdded(deps, image);
}

async function importRecords(deps: ImageDeps, base: string, archive: string): Promise<string> {
  const flags = ["--base-name", base, "--digests", ...(await snapshotterFlags(deps))];
  await ctr(deps, ["images", "import", ...flags, archive], { timeoutMs: TRANSFER_MS });
  const imported = (await listRecords(deps)).filter(({ name }) => name.startsWith(`${base}@`));
  const [first] = imported;
  if (first !== undefined && imported.length === 1) return first.name;
  const reason =
    first === undefined
      ? "it holds no image for this machine"
      : `it holds ${String(imported.length)} images; it must hold exactly one`;
  throw new AppError("IMAGE_SOURCE_INVALID", { source: archive, reason });
}

/**
 * Imports the one image of an archive under a whole reference, in the place of what had it. What the archive itself
 * calls it counts for nothing.
 * @throws AppError with IMAGE_SOURCE_INVALID, CONTAINERD_FAILED
 */
export async function importImage(
  deps: ImageDeps,
  { archive, id }: ImportSource,
  name: string,
): Promise<void> {
  const base = `${IMPORT_BASE}/${id}`;
  try {
    await rename(deps, await importRecords(deps, base, archive), name);
  } finally {
    const records = await listRecords(deps);
    const temporary = records.filter((record) => record.name.startsWith(base));
    await removeRecords(
      deps,
      temporary.map((record) => record.name),
    );
    await removeOrphans(deps);
  }
}

/** How a transfer goes on. */
export interface PullOptions {
  readonly signal?: AbortSignal;
  /** Gets what `ctr` says of it, as it comes. */
  readonly onOutput?: (text: string) => void;
}

/**
 * Fetches an image from its registry under `name`; both are whole references.
 * @throws AppError with CONTAINERD_FAILED
 */
export async function pullImage(
  deps: ImageDeps & { readonly layout: Pick<ContainerdLayout, "registryHosts"> },
  { reference, name }: { readonly reference: string; readonly name: string },
  options: PullOptions,
): Promise<void> {
  const wasThere = (await findImage(deps, reference)) !== undefined;
  const hosts = ["--hosts-dir", deps.layout.registryHosts];
  const args = ["images", "pull", ...hosts, ...(await snapshotterFlags(deps)), reference];
  await ctr(deps, args, { timeoutMs: TRANSFER_MS, ...options });
  await rename(deps, reference, name);
  if (!wasThere && reference !== name) await removeRecords(deps, [reference]);
  await removeOrphans(deps);
}

/** Removes the name, and what has no other; gone is success. Layers that containers run from stay until they end. */
export async function removeImage(deps: CtrDeps, name: string): Promise<void> {
  await removeRecords(deps, namesToRemove(await listRecords(deps), name));
  await removeOrphans(deps);
}
