// SPDX-License-Identifier: Apache-2.0
// Builds the files of API-backed volumes. Callers read the objects and tokens.
import { setImmediate } from "node:timers/promises";
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
/** Maximum number of files of a volume, twice the number of a ConfigMap's keys. */
const FILES_MAX = 65_536;
/** Number of entries after which other work proceeds. They take about a millisecond. */
const ENTRIES_PER_TURN = 512;

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

interface TreeEntry {
  readonly firstPath: string;
  readonly tree?: FileTree;
}

type FileTree = Map<string, TreeEntry>;

function addOrFindConflict(root: FileTree, path: string): string | undefined {
  const directories = path.split("/");
  const name = directories.pop() ?? "";
  let tree = root;
  for (const directory of directories) {
    const entry: TreeEntry = tree.get(directory) ?? { firstPath: path, tree: new Map() };
    if (entry.tree === undefined) return entry.firstPath;
    tree.set(directory, entry);
    tree = entry.tree;
  }
  const current = tree.get(name);
  if (current?.tree !== undefined) return current.firstPath;
  if (current === undefined) tree.set(name, { firstPath: path });
  return undefined;
}

class FileSet {
  readonly files = new Map<string, VolumeFile>();
  readonly #tree: FileTree = new Map();
  readonly #reader: VolumeReader;

  constructor(reader: VolumeReader) {
    this.#reader = reader;
  }

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
    if (this.files.size >= FILES_MAX && !this.files.has(path))
      throw buildVolumeError(volume, `it has more than ${String(FILES_MAX)} files`);
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

type Texts = Readonly<Record<string, string>>;

/** Contents of an object's entries. Decodes an entry when it is read, because an object can have thousands. */
class ObjectEntries {
  readonly #texts: Texts;
  readonly #encoded: Texts;

  constructor(texts: Texts = {}, encoded: Texts = {}) {
    this.#texts = texts;
    this.#encoded = encoded;
  }

  *keys(): Generator<string> {
    yield* Object.keys(this.#texts);
    yield* Object.keys(this.#encoded);
  }

  get(key: string): Uint8Array | undefined {
    const encoded = Object.hasOwn(this.#encoded, key) ? this.#encoded[key] : undefined;
    if (encoded !== undefined) return Buffer.from(encoded, "base64");
    const text = Object.hasOwn(this.#texts, key) ? this.#texts[key] : undefined;
    return text === undefined ? undefined : Buffer.from(text);
  }
}

export type Entries = ObjectEntries | undefined;

export function listConfigMapEntries(map: ConfigMap | undefined): Entries {
  return map && new ObjectEntries(map.data, map.binaryData);
}

export function listSecretEntries(secret: Secret | undefined): Entries {
  return secret && new ObjectEntries({}, secret.data);
}

async function addEntries(
  files: FileSet,
  entries: Entries,
  selection: EntrySelection,
): Promise<void> {
  const { volume, description, items, optional = false, mode } = selection;
  if (entries === undefined) {
    if (optional) return;
    throw buildVolumeError(volume, `${description} not found`);
  }
  if (items === undefined) {
    let count = 0;
    for (const key of entries.keys()) {
      files.add(key, entries.get(key) ?? Buffer.alloc(0), { mode });
      count += 1;
      if (count % ENTRIES_PER_TURN === 0) await setImmediate();
    }
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

  async add(source: VolumeProjection): Promise<void> {
    const { configMap, secret, downwardAPI, serviceAccountToken } = source;
    if (configMap !== undefined) await this.#addEntries("configMap", configMap);
    if (secret !== undefined) await this.#addEntries("secret", secret);
    if (downwardAPI !== undefined) this.#addDownward(downwardAPI);
    if (serviceAccountToken !== undefined) this.#addToken(serviceAccountToken);
  }

  async #addEntries(
    kind: ObjectReference["kind"],
    source: NonNullable<VolumeProjection["secret"]>,
  ): Promise<void> {
    const { name = "", ...selection } = source;
    await addEntries(this.set, this.#contents.findEntries({ kind, name }), {
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

export async function buildFiles(
  volume: PodVolume,
  contents: VolumeContents,
): Promise<ReadonlyMap<string, VolumeFile>> {
  const { configMap, secret, downwardAPI, projected } = volume;
  const { defaultMode } = configMap ?? secret ?? downwardAPI ?? projected ?? {};
  const collector = new FileCollector(contents, volume.name, defaultMode);
  for (const source of listSources(volume)) await collector.add(source);
  return collector.set.files;
}
