// SPDX-License-Identifier: Apache-2.0
// Files of a ConfigMap or Secret. Pure.
import type { ConfigMap, KeyToPath, Secret } from "@patchbay/api";
import { volumeFailed, type FileSet } from "./file-set.ts";

/** Which entries are wanted, of what. */
export interface WantedEntries {
  readonly volume: string;
  /** For example `configmap "a"`, as errors name it. */
  readonly what: string;
  readonly items?: readonly KeyToPath[];
  readonly optional?: boolean;
  readonly mode: number;
}

/** Bytes by key; undefined: the object is not there. */
export type Entries = ReadonlyMap<string, Uint8Array> | undefined;

function decoded(data: Readonly<Record<string, string>> = {}): readonly [string, Uint8Array][] {
  return Object.entries(data).map(([key, text]) => [key, Buffer.from(text, "base64")]);
}

/** Text and binary entries. */
export function entriesOfConfigMap(map: ConfigMap | undefined): Entries {
  if (map === undefined) return undefined;
  const texts = Object.entries(map.data ?? {}).map(([key, text]): [string, Uint8Array] => [
    key,
    Buffer.from(text),
  ]);
  return new Map([...texts, ...decoded(map.binaryData)]);
}

/** Decoded entries. */
export function entriesOfSecret(secret: Secret | undefined): Entries {
  return secret === undefined ? undefined : new Map(decoded(secret.data));
}

/**
 * Adds the wanted entries.
 * @throws AppError with RUNTIME_VOLUME_FAILED when the object or an entry is missing and not optional
 */
export function addEntries(files: FileSet, entries: Entries, wanted: WantedEntries): void {
  const { volume, what, items, optional = false, mode } = wanted;
  if (entries === undefined) {
    if (optional) return;
    throw volumeFailed(volume, `${what} not found`);
  }
  if (items === undefined) {
    for (const [key, bytes] of entries) files.add(key, bytes, { mode });
    return;
  }
  for (const item of items) {
    const bytes = entries.get(item.key);
    if (bytes !== undefined) files.add(item.path, bytes, { mode: item.mode ?? mode });
    else if (!optional) throw volumeFailed(volume, `${what} has no entry ${item.key}`);
  }
}
