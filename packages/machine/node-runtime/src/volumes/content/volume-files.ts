// SPDX-License-Identifier: Apache-2.0
// All files of a volume that shows objects, the pod, or tokens. Pure: what it shows has been read before.
import type { Pod, PodVolume, VolumeProjection } from "@patchbay/api";
import type { VolumeFile } from "@patchbay/core/ports";
import type { NodeFacts } from "../../translate/node-facts.ts";
import { addDownwardFiles } from "./downward-files.ts";
import { DEFAULT_MODE, FileSet, volumeFailed, type VolumeReader } from "./file-set.ts";
import { addEntries, type Entries } from "./object-files.ts";
import type { ObjectReference, TokenSource } from "./references.ts";

/** What the volumes of a pod show. */
export interface Shown {
  readonly pod: Pod;
  readonly node: NodeFacts;
  readonly entriesOf: (reference: ObjectReference) => Entries;
  /** Text of a token; undefined: it has not been given out yet. */
  readonly tokenOf: (source: TokenSource) => string | undefined;
}

/** A token is its user's alone, where there is one user, and its group's. Source: Kubernetes projected.go. */
const PRIVATE_MODE = 0o600;

function userOf(pod: Pod): number | undefined {
  const { runAsUser } = pod.spec.securityContext ?? {};
  const all = [...(pod.spec.initContainers ?? []), ...pod.spec.containers];
  const users = new Set(all.map(({ securityContext }) => securityContext?.runAsUser ?? runAsUser));
  return users.size === 1 ? [...users][0] : undefined;
}

function readerOf(pod: Pod, volume: string): VolumeReader {
  const { fsGroup } = pod.spec.securityContext ?? {};
  const onlyUser = userOf(pod);
  return {
    volume,
    ...(fsGroup === undefined ? {} : { fsGroup }),
    ...(onlyUser === undefined ? {} : { onlyUser }),
  };
}

class Collector {
  readonly set: FileSet;
  readonly #reader: VolumeReader;
  readonly #shown: Shown;
  readonly #mode: number;

  constructor(shown: Shown, volume: string, mode: number | undefined) {
    this.#reader = readerOf(shown.pod, volume);
    this.set = new FileSet(this.#reader);
    this.#shown = shown;
    this.#mode = mode ?? DEFAULT_MODE;
  }

  add(source: VolumeProjection): void {
    const { configMap, secret, downwardAPI, serviceAccountToken } = source;
    if (configMap !== undefined) this.#addEntries("configMap", configMap);
    if (secret !== undefined) this.#addEntries("secret", secret);
    if (downwardAPI !== undefined) this.#addDownward(downwardAPI);
    if (serviceAccountToken !== undefined) this.#addToken(serviceAccountToken);
  }

  #addEntries(
    kind: ObjectReference["kind"],
    source: NonNullable<VolumeProjection["secret"]>,
  ): void {
    const { name = "", ...wanted } = source;
    addEntries(this.set, this.#shown.entriesOf({ kind, name }), {
      ...wanted,
      what: `${kind.toLowerCase()} ${JSON.stringify(name)}`,
      volume: this.#reader.volume,
      mode: this.#mode,
    });
  }

  #addDownward({ items = [] }: NonNullable<VolumeProjection["downwardAPI"]>): void {
    const { pod, node } = this.#shown;
    addDownwardFiles(this.set, items, { volume: this.#reader.volume, pod, node, mode: this.#mode });
  }

  #addToken(source: TokenSource): void {
    const { volume, fsGroup, onlyUser } = this.#reader;
    const token = this.#shown.tokenOf(source);
    if (token === undefined) throw volumeFailed(volume, "its token has not been issued yet");
    const isPrivate = fsGroup !== undefined || onlyUser !== undefined;
    const mode = isPrivate ? PRIVATE_MODE : this.#mode;
    // The group reads it by fsGroup; without one it must be the user's own.
    const uid = fsGroup === undefined ? onlyUser : undefined;
    this.set.add(source.path, Buffer.from(token), { mode, ...(uid !== undefined && { uid }) });
  }
}

function sourcesOf(volume: PodVolume): readonly VolumeProjection[] {
  const { configMap, secret, downwardAPI, projected } = volume;
  if (projected !== undefined) return projected.sources ?? [];
  if (configMap !== undefined) return [{ configMap }];
  if (downwardAPI !== undefined) return [{ downwardAPI }];
  const { secretName, ...rest } = secret ?? {};
  return [{ secret: { ...rest, ...(secretName !== undefined && { name: secretName }) } }];
}

/**
 * The files by their paths below the volume.
 * @throws AppError with RUNTIME_VOLUME_FAILED when something is missing, or a path is not one
 */
export function filesOf(volume: PodVolume, shown: Shown): ReadonlyMap<string, VolumeFile> {
  const { configMap, secret, downwardAPI, projected } = volume;
  const { defaultMode } = configMap ?? secret ?? downwardAPI ?? projected ?? {};
  const collector = new Collector(shown, volume.name, defaultMode);
  for (const source of sourcesOf(volume)) collector.add(source);
  return collector.set.files;
}
