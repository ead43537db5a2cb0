// SPDX-License-Identifier: Apache-2.0
// Builds the files of API-backed volumes. Callers read the objects and tokens.
import { AppError } from "@patchbay/base";
import type { VolumeFile } from "@patchbay/core/interfaces";
import type {
  ConfigMap,
  KeyToPath,
  Secret,
  DownwardFile,
  Pod,
  PodVolume,
  VolumeProjection,
} from "@patchbay/api/kubernetes";
import type { NodeFacts } from "../../translate/node-facts.ts";
import { findField, findResourceField } from "../../translate/fields.ts";
import type { ObjectReference, TokenSource } from "./references.ts";

interface VolumeReader {
  readonly volume: string;
  /** GID of the files; unset for root's group. */
  readonly fsGroup?: number;
  /** UID of all containers; unset if the containers' UIDs differ or come from their images. */
  readonly onlyUser?: number;
}

/** Source: defaultMode of API-backed volumes in core/v1. */
const DEFAULT_MODE = 0o644;
/** Mode bits that let members of the fsGroup read a file. Source: roMask in volume_linux.go of Kubernetes. */
const GROUP_READ_BITS = 0o440;
// Source: NAME_MAX and PATH_MAX of Linux.
const NAME_MAX = 255;
const PATH_MAX = 4096;

export function buildVolumeError(volume: string, reason: string): AppError {
  return new AppError("RUNTIME_VOLUME_FAILED", { volume, reason });
}

/** Checks a file's path. Names with a leading `..` are reserved for the links of atomic updates. Source: Kubernetes validatePath. */
function isValidPath(path: string): boolean {
  const names = path.split("/");
  const isValid = (name: string): boolean =>
    name !== "" && name !== "." && name !== ".." && Buffer.byteLength(name) <= NAME_MAX;
  return !path.startsWith("..") && Buffer.byteLength(path) < PATH_MAX && names.every(isValid);
}

interface FileTree {
  readonly firstPath: string;
  readonly children: Map<string, FileTree>;
  readonly isFile: boolean;
}

function addOrFindConflict(root: FileTree, path: string): string | undefined {
  let tree = root;
  const names = path.split("/");
  for (const [index, name] of names.entries()) {
    const isFile = index === names.length - 1;
    const child = tree.children.get(name) ?? { firstPath: path, children: new Map(), isFile };
    if (child.isFile !== isFile) return child.firstPath;
    tree.children.set(name, child);
    tree = child;
  }
  return undefined;
}

class FileSet {
  readonly files = new Map<string, VolumeFile>();
  readonly #tree: FileTree = { firstPath: "", children: new Map(), isFile: false };
  readonly #reader: VolumeReader;

  constructor(reader: VolumeReader) {
    this.#reader = reader;
  }

  /** @throws AppError with RUNTIME_VOLUME_FAILED when the path is invalid or conflicts with another file's path */
  add(
    path: string,
    bytes: Uint8Array,
    file: { readonly mode: number; readonly uid?: number },
  ): void {
    const { volume, fsGroup } = this.#reader;
    if (!isValidPath(path)) throw buildVolumeError(volume, `invalid path ${JSON.stringify(path)}`);
    const conflictingPath = addOrFindConflict(this.#tree, path);
    if (conflictingPath !== undefined)
      throw buildVolumeError(volume, `paths ${path} and ${conflictingPath} collide`);
    const group = fsGroup === undefined ? {} : { gid: fsGroup };
    const mode = fsGroup === undefined ? file.mode : file.mode | GROUP_READ_BITS;
    this.files.set(path, {
      bytes,
      mode,
      ...group,
      ...(file.uid !== undefined && { uid: file.uid }),
    });
  }
}

interface EntrySelection {
  readonly volume: string;
  /** Description of the object for errors, for example `configmap "a"`. */
  readonly description: string;
  readonly items?: readonly KeyToPath[];
  readonly optional?: boolean;
  readonly mode: number;
}

/** Contents of an object's entries by key; undefined if the object does not exist. */
export type Entries = ReadonlyMap<string, Uint8Array> | undefined;

function decodeEntries(
  data: Readonly<Record<string, string>> = {},
): readonly [string, Uint8Array][] {
  return Object.entries(data).map(([key, text]) => [key, Buffer.from(text, "base64")]);
}

export function listConfigMapEntries(map: ConfigMap | undefined): Entries {
  if (map === undefined) return undefined;
  const texts = Object.entries(map.data ?? {}).map(([key, text]): [string, Uint8Array] => [
    key,
    Buffer.from(text),
  ]);
  return new Map([...texts, ...decodeEntries(map.binaryData)]);
}

export function listSecretEntries(secret: Secret | undefined): Entries {
  return secret === undefined ? undefined : new Map(decodeEntries(secret.data));
}

/** @throws AppError with RUNTIME_VOLUME_FAILED when the object or an entry is missing and not optional */
function addEntries(files: FileSet, entries: Entries, selection: EntrySelection): void {
  const { volume, description, items, optional = false, mode } = selection;
  if (entries === undefined) {
    if (optional) return;
    throw buildVolumeError(volume, `${description} not found`);
  }
  if (items === undefined) {
    for (const [key, bytes] of entries) files.add(key, bytes, { mode });
    return;
  }
  for (const item of items) {
    const bytes = entries.get(item.key);
    if (bytes !== undefined) files.add(item.path, bytes, { mode: item.mode ?? mode });
    else if (!optional) throw buildVolumeError(volume, `${description} has no entry ${item.key}`);
  }
}

const GO_ESCAPES: Readonly<Record<string, string>> = { "07": "\\a", "0b": "\\v" };

/** Quotes the text like Go's `%q`. */
function quote(text: string): string {
  return JSON.stringify(text).replace(
    /\\u00([01][0-9a-f])/g,
    (_, code: string) => GO_ESCAPES[code] ?? `\\x${code}`,
  );
}

/** Source: fieldpath.FormatMap of Kubernetes. */
function printMap(values: Readonly<Record<string, string>> = {}): string {
  return Object.keys(values)
    .sort()
    .map((name) => `${name}=${quote(values[name] ?? "")}`)
    .join("\n");
}

function findFileText(pod: Pod, file: DownwardFile, node: NodeFacts): string | undefined {
  if (file.resourceFieldRef !== undefined) return findResourceField(pod, file.resourceFieldRef);
  const path = file.fieldRef?.fieldPath ?? "";
  if (path === "metadata.labels") return printMap(pod.metadata.labels);
  if (path === "metadata.annotations") return printMap(pod.metadata.annotations);
  // As in Kubernetes, volumes can contain fields of metadata, but not of spec and status.
  return path.startsWith("metadata.") ? findField(pod, path, { node, podIps: [] }) : undefined;
}

interface DownwardSource {
  readonly volume: string;
  readonly pod: Pod;
  readonly node: NodeFacts;
  readonly mode: number;
}

/** @throws AppError with RUNTIME_VOLUME_FAILED for a field that volumes do not support */
function addDownwardFiles(
  files: FileSet,
  items: readonly DownwardFile[],
  { volume, pod, node, mode }: DownwardSource,
): void {
  for (const item of items) {
    const text = findFileText(pod, item, node);
    if (text === undefined) {
      throw buildVolumeError(
        volume,
        `fieldPath ${item.fieldRef?.fieldPath ?? ""} is not supported in volumes`,
      );
    }
    files.add(item.path, Buffer.from(text), { mode: item.mode ?? mode });
  }
}

export interface VolumeContents {
  readonly pod: Pod;
  readonly node: NodeFacts;
  readonly findEntries: (reference: ObjectReference) => Entries;
  readonly findToken: (source: TokenSource) => string | undefined;
}

/** Mode of token files. Source: projected.go of Kubernetes. */
const PRIVATE_MODE = 0o600;

function findOnlyUser(pod: Pod): number | undefined {
  const { runAsUser } = pod.spec.securityContext ?? {};
  const containers = [...(pod.spec.initContainers ?? []), ...pod.spec.containers];
  const users = new Set(
    containers.map(({ securityContext }) => securityContext?.runAsUser ?? runAsUser),
  );
  return users.size === 1 ? [...users][0] : undefined;
}

function findReader(pod: Pod, volume: string): VolumeReader {
  const { fsGroup } = pod.spec.securityContext ?? {};
  const onlyUser = findOnlyUser(pod);
  return {
    volume,
    ...(fsGroup === undefined ? {} : { fsGroup }),
    ...(onlyUser === undefined ? {} : { onlyUser }),
  };
}

class FileCollector {
  readonly set: FileSet;
  readonly #reader: VolumeReader;
  readonly #contents: VolumeContents;
  readonly #mode: number;

  constructor(contents: VolumeContents, volume: string, mode: number | undefined) {
    this.#reader = findReader(contents.pod, volume);
    this.set = new FileSet(this.#reader);
    this.#contents = contents;
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
    const { name = "", ...selection } = source;
    addEntries(this.set, this.#contents.findEntries({ kind, name }), {
      ...selection,
      description: `${kind.toLowerCase()} ${JSON.stringify(name)}`,
      volume: this.#reader.volume,
      mode: this.#mode,
    });
  }

  #addDownward({ items = [] }: NonNullable<VolumeProjection["downwardAPI"]>): void {
    const { pod, node } = this.#contents;
    addDownwardFiles(this.set, items, { volume: this.#reader.volume, pod, node, mode: this.#mode });
  }

  #addToken(source: TokenSource): void {
    const { volume, fsGroup, onlyUser } = this.#reader;
    const token = this.#contents.findToken(source);
    if (token === undefined) throw buildVolumeError(volume, "its token has not been issued yet");
    const isPrivate = fsGroup !== undefined || onlyUser !== undefined;
    const mode = isPrivate ? PRIVATE_MODE : this.#mode;
    // If the pod has an fsGroup, that group can read the token. Otherwise, the token belongs to the containers' user if all have the same.
    const uid = fsGroup === undefined ? onlyUser : undefined;
    this.set.add(source.path, Buffer.from(token), { mode, ...(uid !== undefined && { uid }) });
  }
}

function listSources(volume: PodVolume): readonly VolumeProjection[] {
  const { configMap, secret, downwardAPI, projected } = volume;
  if (projected !== undefined) return projected.sources ?? [];
  if (configMap !== undefined) return [{ configMap }];
  if (downwardAPI !== undefined) return [{ downwardAPI }];
  const { secretName, ...otherFields } = secret ?? {};
  return [{ secret: { ...otherFields, ...(secretName !== undefined && { name: secretName }) } }];
}

/** @throws AppError with RUNTIME_VOLUME_FAILED when an object is missing or a path is invalid */
export function buildFiles(
  volume: PodVolume,
  contents: VolumeContents,
): ReadonlyMap<string, VolumeFile> {
  const { configMap, secret, downwardAPI, projected } = volume;
  const { defaultMode } = configMap ?? secret ?? downwardAPI ?? projected ?? {};
  const collector = new FileCollector(contents, volume.name, defaultMode);
  for (const source of listSources(volume)) collector.add(source);
  return collector.set.files;
}
