// SPDX-License-Identifier: Apache-2.0
// What does containerd know of images? A record is a name and what it names; CRI adds one by the image's id. Pure.
import { repositoryOf } from "./reference.ts";

/** One name. */
export interface ImageRecord {
  readonly name: string;
  /** Of the manifest or of the index of manifests. */
  readonly digest: string;
}

const LINE = /^(\S+)\s+\S+\s+(sha256:[0-9a-f]{64})\s/;
/** How CRI names an image by its id. Source: containerd, CRI plugin. */
const ID = /^sha256:[0-9a-f]{64}$/;

/** Reads what `ctr images ls` prints: columns of a name, a media type, a digest and more. */
export function parseRecords(listing: string): readonly ImageRecord[] {
  return listing.split("\n").flatMap((line) => {
    const [, name, digest] = LINE.exec(line) ?? [];
    return name === undefined || digest === undefined ? [] : [{ name, digest }];
  });
}

function isId({ name }: ImageRecord): boolean {
  return ID.test(name);
}

/** `NAME` of `NAME@sha256:…`; undefined for other names. */
function pinnedName({ name }: ImageRecord): string | undefined {
  const [head, digest] = name.split("@");
  return digest === undefined ? undefined : head;
}

/** The names by which people know images: no ids, and a name with a digest only where the image has no other. */
export function namedRecords(records: readonly ImageRecord[]): readonly ImageRecord[] {
  const names = records.filter((record) => !isId(record));
  const tagged = new Set(
    names.filter((record) => pinnedName(record) === undefined).map(({ digest }) => digest),
  );
  return names.filter((record) => pinnedName(record) === undefined || !tagged.has(record.digest));
}

/** Ids of images that have no name: they would keep layers for nobody. */
export function orphansOf(records: readonly ImageRecord[]): readonly string[] {
  const named = new Set(records.filter((record) => !isId(record)).map(({ digest }) => digest));
  return records.filter((each) => isId(each) && !named.has(each.digest)).map(({ name }) => name);
}

/** What goes with a name: a pull by tag also names the image by its digest. */
export function namesToRemove(records: readonly ImageRecord[], name: string): readonly string[] {
  const digest = records.find((record) => record.name === name)?.digest;
  if (digest === undefined) return [];
  const repository = repositoryOf(name);
  const isOtherTag = (record: ImageRecord): boolean =>
    record.name !== name && record.digest === digest && record.name.startsWith(`${repository}:`);
  const pinned = `${repository}@${digest}`;
  const hasPinned = records.some((record) => record.name === pinned) && pinned !== name;
  return hasPinned && !records.some(isOtherTag) ? [name, pinned] : [name];
}
