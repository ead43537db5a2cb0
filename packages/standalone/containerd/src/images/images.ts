// SPDX-License-Identifier: Apache-2.0
import { parseRepository } from "./reference.ts";
import { ctr, type CtrDeps } from "../ctr.ts";
import { AppError, type Clock } from "@patchbay/base";
import type { Files } from "@patchbay/core/interfaces";
import type { ContainerdLayout } from "../layout.ts";

/** containerd's record of an image under one name. CRI adds a record whose name is the image's id. */
interface ImageRecord {
  readonly name: string;
  readonly digest: string;
}

const RECORD_LINE_PATTERN = /^(\S+)\s+\S+\s+(sha256:[0-9a-f]{64})\s/;
/** Pattern of names that are image ids. Source: containerd, CRI plugin. */
const IMAGE_ID_PATTERN = /^sha256:[0-9a-f]{64}$/;

export function parseRecords(listing: string): readonly ImageRecord[] {
  return listing.split("\n").flatMap((line) => {
    const [, name, digest] = RECORD_LINE_PATTERN.exec(line) ?? [];
    return name === undefined || digest === undefined ? [] : [{ name, digest }];
  });
}

function isId({ name }: ImageRecord): boolean {
  return IMAGE_ID_PATTERN.test(name);
}

function parsePinnedName({ name }: ImageRecord): string | undefined {
  const [head, digest] = name.split("@");
  return digest === undefined ? undefined : head;
}

/** Selects the records whose name is not an image id. Omits a name with a digest if its image also has a name without a digest. */
export function selectNamedRecords(records: readonly ImageRecord[]): readonly ImageRecord[] {
  const names = records.filter((record) => !isId(record));
  const taggedDigests = new Set(
    names.filter((record) => parsePinnedName(record) === undefined).map(({ digest }) => digest),
  );
  return names.filter(
    (record) => parsePinnedName(record) === undefined || !taggedDigests.has(record.digest),
  );
}

/** Returns the ids of images that have no name. The records of these ids are useless, and prevent the removal of unused layers. */
export function findUnnamedIds(records: readonly ImageRecord[]): readonly string[] {
  const namedDigests = new Set(
    records.filter((record) => !isId(record)).map(({ digest }) => digest),
  );
  return records
    .filter((each) => isId(each) && !namedDigests.has(each.digest))
    .map(({ name }) => name);
}

/** Lists the names to remove with `name`: `name` itself, and `REPOSITORY@DIGEST` unless another tag of REPOSITORY has DIGEST. */
export function listNamesToRemove(
  records: readonly ImageRecord[],
  name: string,
): readonly string[] {
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

/** Returns the names that users added. Omits a name whose label has a different digest, because a pull has replaced the added image. */
export function parseMarkedNames(listing: string): readonly string[] {
  return listing.split("\n").flatMap((line) => {
    const [name = "", , digest = ""] = line.split(/\s+/);
    return line.includes(`${ADDED_LABEL}=${digest}`) && digest !== "" ? [name] : [];
  });
}

/** Lists the names of images that users added to this machine. If `name` is set, lists only this name. */
export async function listAdded(deps: CtrDeps, name?: string): Promise<readonly string[]> {
  const filter = name === undefined ? [] : [`name==${JSON.stringify(name)}`];
  return parseMarkedNames(await ctr(deps, ["images", "ls", ...filter]));
}

/** Pattern of ctr's last output line, `elapsed: 1.2 s total: 1.0 Mi (1.2 MiB/s)`. Source: ctr 1.6 to 2.0, progress. */
const PROGRESS_LINE_PATTERN = /^elapsed: +([\d.]+) *s +total: +([\d.]+) (Ki|Mi|Gi|Ti)?/;

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
    const [, seconds, amount, unit = ""] = PROGRESS_LINE_PATTERN.exec(line) ?? [];
    if (seconds === undefined || amount === undefined) return;
    const currentSecond = Math.floor(Number(seconds));
    if (currentSecond <= this.#lastSecond) return;
    this.#lastSecond = currentSecond;
    this.#print(`${seconds.padStart(7)} s  ${amount} ${unit}B fetched`);
  }
}

const TRANSFER_TIMEOUT_MS = 3_600_000;
/** Registry host in the temporary names of imported images. No registry serves the domain `invalid`. */
const IMPORT_HOST = "import.invalid";

interface ImportSource {
  readonly archive: string;
  /** Part of the image's temporary name that distinguishes concurrent imports. */
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

/** Lists the images, sorted by name. Omits the records that {@link selectNamedRecords} does not select. */
export async function listImages(deps: CtrDeps): Promise<readonly ImageRecord[]> {
  return selectNamedRecords(await listRecords(deps)).toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

export async function findImage(deps: CtrDeps, name: string): Promise<ImageRecord | undefined> {
  return (await listImages(deps)).find((image) => image.name === name);
}

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

export interface ImageChangeDeps extends ImageDeps {
  readonly clock: Clock;
}

/** Label that CRI adds to an image when it handles the image's event. Pods cannot use the image before. Source: containerd, CRI plugin. */
const CRI_LABEL = "io.cri-containerd.image=managed";
const CRI_POLL_INTERVAL_MS = 50;
/** CRI handles one event at a time, each within 10 s. It never adds the label to an image that it cannot read. */
const CRI_TIMEOUT_MS = 60_000;

/** Waits until pods can use the image, so that a pod that starts next does not pull it. */
async function findImageOfCri(
  deps: ImageChangeDeps,
  name: string,
): Promise<ImageRecord | undefined> {
  const { clock } = deps;
  const endMs = clock.monotonicMs() + CRI_TIMEOUT_MS;
  for (;;) {
    const listing = await ctr(deps, ["images", "ls", `name==${JSON.stringify(name)}`]);
    const isDone = listing.includes(CRI_LABEL) || clock.monotonicMs() >= endMs;
    if (isDone) return parseRecords(listing)[0];
    await clock.sleep(CRI_POLL_INTERVAL_MS, new AbortController().signal);
  }
}

/** Assigns the name to the image, replacing another image of that name, and marks the image as added by a user. */
async function nameAddedImage(
  deps: ImageChangeDeps,
  currentName: string,
  name: string,
): Promise<void> {
  if (currentName !== name) await ctr(deps, ["images", "tag", "--force", currentName, name]);
  const image = await findImageOfCri(deps, name);
  if (image !== undefined) await markAdded(deps, image);
}

async function importRecords(deps: ImageDeps, base: string, archive: string): Promise<string> {
  const flags = ["--base-name", base, "--digests", ...(await snapshotterFlags(deps))];
  await ctr(deps, ["images", "import", ...flags, archive], { timeoutMs: TRANSFER_TIMEOUT_MS });
  const importedRecords = (await listRecords(deps)).filter(({ name }) =>
    name.startsWith(`${base}@`),
  );
  const [firstRecord] = importedRecords;
  if (firstRecord !== undefined && importedRecords.length === 1) return firstRecord.name;
  const reason =
    firstRecord === undefined
      ? "it contains no image for this machine's architecture"
      : `it contains ${String(importedRecords.length)} images; it must contain exactly one`;
  throw new AppError("IMAGE_SOURCE_INVALID", { source: archive, reason });
}

/**
 * Imports an archive as `name`. Replaces an existing image of that name and ignores names in the archive.
 * @throws AppError with IMAGE_SOURCE_INVALID, CONTAINERD_FAILED
 */
export async function importImage(
  deps: ImageChangeDeps,
  { archive, id }: ImportSource,
  name: string,
): Promise<void> {
  const base = `${IMPORT_HOST}/${id}`;
  try {
    await nameAddedImage(deps, await importRecords(deps, base, archive), name);
  } finally {
    const records = await listRecords(deps);
    const temporaryRecords = records.filter((record) => record.name.startsWith(base));
    await removeRecords(
      deps,
      temporaryRecords.map((record) => record.name),
    );
    await removeUnnamed(deps);
  }
}

interface PullOptions {
  readonly signal?: AbortSignal;
  readonly onOutput?: (text: string) => void;
}

/** Pulls the image `reference` and names it `name`. Both are full references. @throws AppError with CONTAINERD_FAILED */
export async function pullImage(
  deps: ImageChangeDeps & { readonly layout: Pick<ContainerdLayout, "registryHosts"> },
  { reference, name }: { readonly reference: string; readonly name: string },
  options: PullOptions,
): Promise<void> {
  const wasPresent = (await findImage(deps, reference)) !== undefined;
  const hosts = ["--hosts-dir", deps.layout.registryHosts];
  const args = ["images", "pull", ...hosts, ...(await snapshotterFlags(deps)), reference];
  await ctr(deps, args, { timeoutMs: TRANSFER_TIMEOUT_MS, ...options });
  await nameAddedImage(deps, reference, name);
  if (!wasPresent && reference !== name) await removeRecords(deps, [reference]);
  await removeUnnamed(deps);
}

/** Removes the name, and the image if it has no other name. Preserves layers in use. Idempotent. */
export async function removeImage(deps: CtrDeps, name: string): Promise<void> {
  await removeRecords(deps, listNamesToRemove(await listRecords(deps), name));
  await removeUnnamed(deps);
}
