// SPDX-License-Identifier: Apache-2.0
// Images in containerd: list, import, pull and remove, by full reference.
import { parseRepository } from "./reference.ts";
import { ctr, type CtrDeps } from "../ctr.ts";
import { AppError } from "@patchbay/base";
import type { Files } from "@patchbay/core/interfaces";
import type { ContainerdLayout } from "../layout.ts";

/** Record of an image. CRI also adds a record whose name is the image's id. */
interface ImageRecord {
  readonly name: string;
  /** Digest of the manifest or index. */
  readonly digest: string;
}

const RECORD_LINE = /^(\S+)\s+\S+\s+(sha256:[0-9a-f]{64})\s/;
/** Matches names that are an image's id. Source: containerd, CRI plugin. */
const IMAGE_ID = /^sha256:[0-9a-f]{64}$/;

export function parseRecords(listing: string): readonly ImageRecord[] {
  return listing.split("\n").flatMap((line) => {
    const [, name, digest] = RECORD_LINE.exec(line) ?? [];
    return name === undefined || digest === undefined ? [] : [{ name, digest }];
  });
}

function isId({ name }: ImageRecord): boolean {
  return IMAGE_ID.test(name);
}

function pinnedName({ name }: ImageRecord): string | undefined {
  const [head, digest] = name.split("@");
  return digest === undefined ? undefined : head;
}

/** Omits ids, and names with a digest if the image has another name. */
export function namedRecords(records: readonly ImageRecord[]): readonly ImageRecord[] {
  const names = records.filter((record) => !isId(record));
  const taggedDigests = new Set(
    names.filter((record) => pinnedName(record) === undefined).map(({ digest }) => digest),
  );
  return names.filter(
    (record) => pinnedName(record) === undefined || !taggedDigests.has(record.digest),
  );
}

/** Returns ids of images without a name, which only retain unused layers. */
export function findUnnamedIds(records: readonly ImageRecord[]): readonly string[] {
  const namedDigests = new Set(
    records.filter((record) => !isId(record)).map(({ digest }) => digest),
  );
  return records
    .filter((each) => isId(each) && !namedDigests.has(each.digest))
    .map(({ name }) => name);
}

/** Returns the names to remove, because a pull by tag also adds the name by digest. */
export function namesToRemove(records: readonly ImageRecord[], name: string): readonly string[] {
  const digest = records.find((record) => record.name === name)?.digest;
  if (digest === undefined) return [];
  const repository = parseRepository(name);
  const isOtherTag = (record: ImageRecord): boolean =>
    record.name !== name && record.digest === digest && record.name.startsWith(`${repository}:`);
  const pinnedReference = `${repository}@${digest}`;
  const hasPinned =
    records.some((record) => record.name === pinnedReference) && pinnedReference !== name;
  return hasPinned && !records.some(isOtherTag) ? [name, pinnedReference] : [name];
}

const ADDED_LABEL = "patchbay.io/added";

async function markAdded(
  deps: CtrDeps,
  image: { readonly name: string; readonly digest: string },
): Promise<void> {
  await ctr(deps, ["images", "label", image.name, `${ADDED_LABEL}=${image.digest}`]);
}

/** Returns labeled names. A later pull of the name invalidates the label. */
export function parseMarkedNames(listing: string): readonly string[] {
  return listing.split("\n").flatMap((line) => {
    const [name = "", , digest = ""] = line.split(/\s+/);
    return line.includes(`${ADDED_LABEL}=${digest}`) && digest !== "" ? [name] : [];
  });
}

/** Lists names that users added on this machine; `name` must be a full reference. */
export async function listAdded(deps: CtrDeps, name?: string): Promise<readonly string[]> {
  const filter = name === undefined ? [] : [`name==${JSON.stringify(name)}`];
  return parseMarkedNames(await ctr(deps, ["images", "ls", ...filter]));
}

/** Matches the last line, `elapsed: 1.2 s total: 1.0 Mi (1.2 MiB/s)`. Source: ctr 1.6 to 2.0, progress. */
const PROGRESS_LINE = /^elapsed: +([\d.]+) *s +total: +([\d.]+) (Ki|Mi|Gi|Ti)?/;

/** Prints one line per second from the output of `ctr images pull`, which redraws a table ten times a second. */
export class PullProgress {
  readonly #print: (line: string) => void;
  #rest = "";
  #lastSecond = 0;

  constructor(print: (line: string) => void) {
    this.#print = print;
  }

  read(text: string): void {
    const lines = `${this.#rest}${text}`.split(/[\r\n]/);
    this.#rest = lines.pop() ?? "";
    for (const line of lines) this.#readLine(line);
  }

  #readLine(line: string): void {
    const [, seconds, amount, unit = ""] = PROGRESS_LINE.exec(line) ?? [];
    if (seconds === undefined || amount === undefined) return;
    const second = Math.floor(Number(seconds));
    if (second <= this.#lastSecond) return;
    this.#lastSecond = second;
    this.#print(`${seconds.padStart(7)} s  ${amount} ${unit}B fetched`);
  }
}

/** Time limit for gigabytes on a slow disk or network. */
const TRANSFER_TIMEOUT_MS = 3_600_000;
/** Host in temporary names, which no registry serves. */
const IMPORT_BASE = "import.invalid";

interface ImportSource {
  /** Absolute path of the archive. */
  readonly archive: string;
  /** Unique part of temporary names, which distinguishes concurrent imports. */
  readonly id: string;
}

async function listRecords(deps: CtrDeps): Promise<readonly ImageRecord[]> {
  return parseRecords(await ctr(deps, ["images", "ls"]));
}

async function removeRecords(deps: CtrDeps, names: readonly string[]): Promise<void> {
  if (names.length > 0) await ctr(deps, ["images", "rm", "--sync", ...names]);
}

async function removeUnnamed(deps: CtrDeps): Promise<void> {
  await removeRecords(deps, findUnnamedIds(await listRecords(deps)));
}

/** Returns the images with the names that users know, sorted. */
export async function listImages(deps: CtrDeps): Promise<readonly ImageRecord[]> {
  return namedRecords(await listRecords(deps)).toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

/** Returns the image. `name` is a full reference. */
export async function findImage(deps: CtrDeps, name: string): Promise<ImageRecord | undefined> {
  return (await listImages(deps)).find((image) => image.name === name);
}

/** Returns the snapshotter, which each call that unpacks layers must name. */
export async function readSnapshotter(files: Files, layout: ImageDeps["layout"]): Promise<string> {
  const text = (await files.readText(layout.config)) ?? "";
  return /^snapshotter = "(\w+)"$/m.exec(text)?.[1] ?? "overlayfs";
}

async function snapshotterFlags({ files, layout }: ImageDeps): Promise<readonly string[]> {
  return ["--snapshotter", await readSnapshotter(files, layout)];
}

export interface ImageDeps extends CtrDeps {
  readonly files: Files;
  readonly layout: Pick<ContainerdLayout, "socket" | "config">;
}

/** Gives the image `name`, replacing an existing image, and marks it as added by a user. */
async function rename(deps: CtrDeps, from: string, name: string): Promise<void> {
  if (from !== name) await ctr(deps, ["images", "tag", "--force", from, name]);
  const image = await findImage(deps, name);
  if (image !== undefined) await markAdded(deps, image);
}

async function importRecords(deps: ImageDeps, base: string, archive: string): Promise<string> {
  const flags = ["--base-name", base, "--digests", ...(await snapshotterFlags(deps))];
  await ctr(deps, ["images", "import", ...flags, archive], { timeoutMs: TRANSFER_TIMEOUT_MS });
  const imported = (await listRecords(deps)).filter(({ name }) => name.startsWith(`${base}@`));
  const [first] = imported;
  if (first !== undefined && imported.length === 1) return first.name;
  const reason =
    first === undefined
      ? "it contains no image for this machine's architecture"
      : `it contains ${String(imported.length)} images; it must contain exactly one`;
  throw new AppError("IMAGE_SOURCE_INVALID", { source: archive, reason });
}

/**
 * Imports an archive as `name`. Replaces an existing image of that name, and ignores names in the archive.
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
    await removeUnnamed(deps);
  }
}

interface PullOptions {
  readonly signal?: AbortSignal;
  readonly onOutput?: (text: string) => void;
}

/**
 * Pulls `reference` as `name`. Both are full references.
 * @throws AppError with CONTAINERD_FAILED
 */
export async function pullImage(
  deps: ImageDeps & { readonly layout: Pick<ContainerdLayout, "registryHosts"> },
  { reference, name }: { readonly reference: string; readonly name: string },
  options: PullOptions,
): Promise<void> {
  const hadRecord = (await findImage(deps, reference)) !== undefined;
  const hosts = ["--hosts-dir", deps.layout.registryHosts];
  const args = ["images", "pull", ...hosts, ...(await snapshotterFlags(deps)), reference];
  await ctr(deps, args, { timeoutMs: TRANSFER_TIMEOUT_MS, ...options });
  await rename(deps, reference, name);
  if (!hadRecord && reference !== name) await removeRecords(deps, [reference]);
  await removeUnnamed(deps);
}

/** Removes the name, and the image if it has no other name. Idempotent. Layers in use remain. */
export async function removeImage(deps: CtrDeps, name: string): Promise<void> {
  await removeRecords(deps, namesToRemove(await listRecords(deps), name));
  await removeUnnamed(deps);
}
