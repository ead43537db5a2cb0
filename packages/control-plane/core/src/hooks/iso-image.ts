// SPDX-License-Identifier: Apache-2.0
// Writer of small ISO 9660 images with Joliet names. Sources: ECMA-119, Joliet specification 1995.
import { joinedBytes } from "@patchbay/base";

/** Source: ECMA-119 6.1.2. */
const SECTOR_BYTES = 2048;
/** First sector after the system area (16 sectors) and three volume descriptors. Source: ECMA-119 6.2.1, 6.7.1. */
const PATH_TABLES_SECTOR = 19;
/** First sector after the four path tables. Each of the two directory trees has one table per byte order. */
const DIRECTORIES_SECTOR = PATH_TABLES_SECTOR + 4;
const DIRECTORY_FLAG = 2;

interface Tree {
  readonly index: 0 | 1;
  readonly type: number;
  readonly escapeSequence: string;
  readonly encode: (name: string) => Uint8Array;
  readonly fileName: (name: string) => string;
  readonly directoryName: (name: string) => string;
}

interface Extent {
  readonly sector: number;
  readonly size: number;
}

interface Entry extends Extent {
  readonly name: Uint8Array;
  readonly isDirectory: boolean;
}

/** Directory of a tree. `parentNumber` counts from 1. The root has an empty path and is its own parent. */
interface Directory {
  readonly path: string;
  readonly parentNumber: number;
}

function encodeAscii(text: string): Uint8Array {
  return Uint8Array.from(text, (letter) => letter.charCodeAt(0));
}

function encodeUcs2(text: string): Uint8Array {
  return joinedBytes(Array.from(text, (letter) => Uint8Array.of(0, letter.charCodeAt(0))));
}

function toPlainName(name: string): string {
  return name.toUpperCase().replaceAll(/[^A-Z0-9_.]/g, "_");
}

const TREES: readonly Tree[] = [
  {
    index: 0,
    type: 1,
    escapeSequence: "",
    encode: encodeAscii,
    directoryName: toPlainName,
    fileName: (name) => `${toPlainName(name)}${name.includes(".") ? "" : "."};1`,
  },
  {
    index: 1,
    type: 2,
    escapeSequence: "%/E",
    encode: encodeUcs2,
    directoryName: (name) => name,
    fileName: (name) => `${name};1`,
  },
];

function toParentPath(path: string): string {
  return path.slice(0, Math.max(0, path.lastIndexOf("/")));
}

function toBaseName(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

function countPathLevels(path: string): number {
  return path === "" ? 0 : path.split("/").length;
}

/** Lists the directories of the paths, parents before children. Source: ECMA-119 6.9.1. */
function listDirectories(paths: readonly string[]): readonly Directory[] {
  const knownPaths = new Set([""]);
  for (const path of paths) {
    for (let parent = toParentPath(path); parent !== ""; parent = toParentPath(parent)) {
      knownPaths.add(parent);
    }
  }
  const sorted = [...knownPaths].sort(
    (left, right) => countPathLevels(left) - countPathLevels(right) || (left < right ? -1 : 1),
  );
  return sorted.map((path) => ({ path, parentNumber: sorted.indexOf(toParentPath(path)) + 1 }));
}

/** Writes a 32-bit number in little-endian and then in big-endian order. Source: ECMA-119 7.3.3. */
function putUint32(view: DataView, offset: number, value: number): void {
  view.setUint32(offset, value, true);
  view.setUint32(offset + 4, value);
}

/** Writes a 16-bit number in little-endian and then in big-endian order. Source: ECMA-119 7.2.3. */
function putUint16(view: DataView, offset: number, value: number): void {
  view.setUint16(offset, value, true);
  view.setUint16(offset + 2, value);
}

/** Builds a directory record with the date January 1, 1970. Source: ECMA-119 9.1. */
function printRecord({ name, sector, size, isDirectory }: Entry): Uint8Array {
  const bytes = new Uint8Array(33 + name.length + ((name.length + 1) % 2));
  const view = new DataView(bytes.buffer);
  bytes[0] = bytes.length;
  putUint32(view, 2, sector);
  putUint32(view, 10, size);
  bytes.set([70, 1, 1], 18);
  bytes[25] = isDirectory ? DIRECTORY_FLAG : 0;
  putUint16(view, 28, 1);
  bytes[32] = name.length;
  bytes.set(name, 33);
  return bytes;
}

/** Source: ECMA-119 9.4. */
function printPathTable(
  { index, encode, directoryName }: Tree,
  directories: readonly Directory[],
  isLittle: boolean,
): Uint8Array {
  const count = directories.length;
  return joinedBytes(
    directories.map(({ path, parentNumber }, extent) => {
      const name = path === "" ? Uint8Array.of(0) : encode(directoryName(toBaseName(path)));
      const bytes = new Uint8Array(8 + name.length + (name.length % 2));
      const view = new DataView(bytes.buffer);
      bytes[0] = name.length;
      view.setUint32(2, DIRECTORIES_SECTOR + index * count + extent, isLittle);
      view.setUint16(6, Math.max(1, parentNumber), isLittle);
      bytes.set(name, 8);
      return bytes;
    }),
  );
}

class Image {
  readonly bytes: Uint8Array;
  readonly #label: string;
  readonly #directories: readonly Directory[];
  readonly #files: ReadonlyMap<string, Extent>;

  constructor(label: string, contents: ReadonlyMap<string, Uint8Array>) {
    this.#label = label;
    this.#directories = listDirectories([...contents.keys()]);
    let sector = DIRECTORIES_SECTOR + TREES.length * this.#directories.length;
    const files = new Map<string, Extent>();
    for (const [path, { length: size }] of contents) {
      files.set(path, { sector, size });
      sector += Math.ceil(size / SECTOR_BYTES);
    }
    this.#files = files;
    // The size is a multiple of 4096 bytes, because a disk may have blocks of this size.
    this.bytes = new Uint8Array((sector + (sector % 2)) * SECTOR_BYTES);
    for (const [path, extent] of files) {
      this.bytes.set(contents.get(path) ?? [], extent.sector * SECTOR_BYTES);
    }
  }

  putTree(tree: Tree): void {
    const tables = [true, false].map((isLittle) =>
      printPathTable(tree, this.#directories, isLittle),
    );
    const firstSector = PATH_TABLES_SECTOR + 2 * tree.index;
    tables.forEach((table, extent) => {
      this.bytes.set(table, (firstSector + extent) * SECTOR_BYTES);
    });
    this.#directories.forEach((directory, extent) => {
      this.bytes.set(this.#directory(tree, directory), this.#sectorOf(tree, extent) * SECTOR_BYTES);
    });
    this.#putDescriptor(tree, { sector: firstSector, size: tables[0]?.length ?? 0 });
  }

  /** Writes the terminator of the volume descriptors. Source: ECMA-119 8.3. */
  putTerminator(): void {
    this.bytes.set([255, ...encodeAscii("CD001"), 1], (PATH_TABLES_SECTOR - 1) * SECTOR_BYTES);
  }

  #sectorOf({ index }: Tree, extent: number): number {
    return DIRECTORIES_SECTOR + index * this.#directories.length + extent;
  }

  #directory(tree: Tree, { path, parentNumber }: Directory): Uint8Array {
    const ownIndex = this.#directories.findIndex((candidate) => candidate.path === path);
    const entry = (name: Uint8Array, extent: number): Entry => {
      return { name, sector: this.#sectorOf(tree, extent), size: SECTOR_BYTES, isDirectory: true };
    };
    const subdirectories = this.#directories.flatMap((candidate, extent) =>
      candidate.path !== "" && toParentPath(candidate.path) === path
        ? [entry(tree.encode(tree.directoryName(toBaseName(candidate.path))), extent)]
        : [],
    );
    const files = [...this.#files].flatMap(([name, extent]) =>
      toParentPath(name) === path
        ? [{ ...extent, name: tree.encode(tree.fileName(toBaseName(name))), isDirectory: false }]
        : [],
    );
    const children = [...subdirectories, ...files].sort((candidate, other) =>
      String(candidate.name) < String(other.name) ? -1 : 1,
    );
    const selfAndParent = [
      entry(Uint8Array.of(0), ownIndex),
      entry(Uint8Array.of(1), Math.max(0, parentNumber - 1)),
    ];
    return joinedBytes([...selfAndParent, ...children].map(printRecord));
  }

  /** Writes the volume descriptor of a tree. Source: ECMA-119 8.4, 8.5. */
  #putDescriptor(tree: Tree, table: Extent): void {
    const { index, type, escapeSequence, encode } = tree;
    const offset = (PATH_TABLES_SECTOR - 3 + index) * SECTOR_BYTES;
    const bytes = this.bytes.subarray(offset, offset + SECTOR_BYTES);
    const view = new DataView(bytes.buffer, bytes.byteOffset, SECTOR_BYTES);
    const putText = (start: number, end: number, value = ""): void => {
      bytes.set(encode(value.padEnd((end - start) >> index)), start);
    };
    bytes.set([type, ...encodeAscii("CD001"), 1]);
    putText(8, 40);
    putText(40, 72, this.#label);
    putUint32(view, 80, this.bytes.length / SECTOR_BYTES);
    bytes.set(encodeAscii(escapeSequence), 88);
    for (const extent of [120, 124]) putUint16(view, extent, 1);
    putUint16(view, 128, SECTOR_BYTES);
    putUint32(view, 132, table.size);
    view.setUint32(140, table.sector, true);
    view.setUint32(148, table.sector + 1);
    const root = { sector: this.#sectorOf(tree, 0), size: SECTOR_BYTES };
    bytes.set(printRecord({ ...root, name: Uint8Array.of(0), isDirectory: true }), 156);
    putText(190, 812);
    for (const date of [813, 830, 847, 864]) bytes.set(encodeAscii("0".repeat(16)), date);
    bytes[881] = 1;
  }
}

/** Builds an ISO image. The keys of `files` are paths. Paths and label must be ASCII. A directory's entries must fit into one sector. */
export function isoImage(label: string, files: ReadonlyMap<string, Uint8Array>): Uint8Array {
  const image = new Image(label, files);
  for (const tree of TREES) image.putTree(tree);
  image.putTerminator();
  return image.bytes;
}
