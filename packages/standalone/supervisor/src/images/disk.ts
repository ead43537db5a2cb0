// SPDX-License-Identifier: Apache-2.0
// Disk files as images: inspects a disk with qemu-img in a sandbox, and copies it into the root of an image.
import { names } from "@patchbay/api";
import { AppError } from "@patchbay/base";
import type { ProcessRunner, Files } from "@patchbay/core/interfaces";
import { isJsonObject, parseJson, type JsonObject } from "@patchbay/api/json";
import { join } from "node:path";
import { runSourceProgram } from "@patchbay/containerd";

/** Long, because the disk may be slow. */
const INSPECT_TIMEOUT_MS = 60_000;
// Limits of qemu-img. A valid file needs 20 MiB and less than a second.
const MEMORY_BYTES = 2 ** 30;
const CPU_SECONDS = 10;
const FILES_MAX = 64;
/** Exit code for a missing program. Source: setpriv(1), prlimit(1), unshare(1). */
const EXIT_NOT_FOUND = 127;
const REASON_LENGTH_MAX = 300;

const USER = String(names.LAUNCHER_UID);
const CONFINEMENT = [
  "unshare",
  "--net",
  "--ipc",
  "--",
  "prlimit",
  `--as=${String(MEMORY_BYTES)}`,
  `--cpu=${String(CPU_SECONDS)}`,
  `--nofile=${String(FILES_MAX)}`,
  "--fsize=0",
  "--core=0",
  "--",
  "setpriv",
  `--reuid=${USER}`,
  `--regid=${USER}`,
  "--clear-groups",
  "--no-new-privs",
  "--inh-caps=-all",
  "--bounding-set=-all",
  "--",
];
/** Script that opens the file for qemu-img, because the launchers' user may not reach its directory. */
const WITH_FILE_AS_STDIN = 'file=$1; shift; exec "$@" <"$file"';

/**
 * Returns the output of qemu-img, which runs without privileges and network, because a hostile file may take it over.
 * @throws AppError with IMAGE_SOURCE_INVALID, OS_PROGRAM_MISSING, OS_TIMED_OUT
 */
export async function inspectDisk(
  runner: ProcessRunner,
  { path, source }: { readonly path: string; readonly source: string },
): Promise<string> {
  const info = ["qemu-img", "info", "--output=json", "/dev/stdin"];
  const { exitCode, stdout, stderr } = await runner.run({
    argv: ["sh", "-c", WITH_FILE_AS_STDIN, "sh", path, ...CONFINEMENT, ...info],
    timeoutMs: INSPECT_TIMEOUT_MS,
  });
  if (exitCode === 0) return stdout;
  if (exitCode === EXIT_NOT_FOUND)
    throw new AppError("OS_PROGRAM_MISSING", { program: "qemu-img" });
  const lastLine = stderr.trim().split("\n").at(-1) ?? "";
  // Control characters are replaced, because they could manipulate the user's terminal.
  const reason = lastLine
    .replaceAll("/dev/stdin", source)
    .replace(/\p{Cc}/gu, "?")
    .slice(0, REASON_LENGTH_MAX);
  throw new AppError("IMAGE_SOURCE_INVALID", {
    source,
    reason: reason === "" ? `qemu-img ended with ${String(exitCode)}` : reason,
  });
}

interface Disk {
  readonly format: "qcow2" | "raw";
  readonly virtualBytes: number;
}

interface InspectedDisk {
  readonly source: string;
  readonly bytes: number;
  readonly info: string;
}

/** Size of a sector. A file without whole sectors is no disk, but for example an interrupted download. */
const SECTOR_BYTES = 512;
/** Maximum size of a disk, 64 TiB: larger than real disks, and small enough for the tools. */
const VIRTUAL_BYTES_MAX = 64 * 2 ** 40;
const QUOTE_LENGTH_MAX = 200;

/** Checks in order of precedence. Each returns the reason for a rejection. */
const CHECKS: readonly ((info: JsonObject, file: InspectedDisk) => string | undefined)[] = [
  hasNoFormat,
  hasUnsupportedFormat,
  hasWrongSuffix,
  refersToOtherFile,
  isUnreadable,
  hasPartialSector,
  hasInvalidSize,
];

function hasNoFormat({ format }: JsonObject): string | undefined {
  return typeof format === "string" ? undefined : "qemu-img does not report its format";
}

function hasUnsupportedFormat(
  { format }: JsonObject,
  { source }: InspectedDisk,
): string | undefined {
  if (format === "qcow2" || format === "raw") return undefined;
  const target = `${source.replace(/\.\w+$/, "")}.qcow2`;
  return `its format is ${String(format)}, and only raw and qcow2 are supported; convert it with: qemu-img convert -O qcow2 ${source} ${target}`;
}

/** Rejects a file whose suffix contradicts its format: a guest may have written a qcow2 header to its raw disk. */
function hasWrongSuffix({ format }: JsonObject, { source }: InspectedDisk): string | undefined {
  const [, suffix = ""] = /\.(raw|iso|qcow2)$/i.exec(source) ?? [];
  const expectedFormat = suffix.toLowerCase() === "qcow2" ? "qcow2" : "raw";
  if (suffix === "" || format === expectedFormat) return undefined;
  return expectedFormat === "raw"
    ? `it is named ${suffix} and contains a disk of format ${String(format)}; rename it if that is intended`
    : "it is named qcow2 but is not a qcow2 disk; check that the download is complete";
}

function findSpecificData(info: JsonObject): JsonObject {
  const specific = info["format-specific"];
  const data = isJsonObject(specific) ? specific["data"] : undefined;
  return isJsonObject(data) ? data : {};
}

/** Quotes a value, because a hostile file may contain control characters of terminals. */
function quote(value: unknown): string {
  return JSON.stringify(value).slice(0, QUOTE_LENGTH_MAX);
}

function refersToOtherFile(info: JsonObject): string | undefined {
  const backing = info["backing-filename"] ?? info["full-backing-filename"];
  const data = findSpecificData(info)["data-file"];
  if (backing !== undefined) {
    return `it is an overlay of the file ${quote(backing)} and contains only a part of the disk; create a complete disk with: qemu-img convert -O qcow2`;
  }
  return data === undefined ? undefined : `its data is in another file, ${quote(data)}`;
}

function isUnreadable(info: JsonObject): string | undefined {
  if (info["encrypted"] === true)
    return "it is encrypted, which is not supported; decrypt it with: qemu-img convert";
  return findSpecificData(info)["corrupt"] === true
    ? "it is marked as corrupt; repair it with: qemu-img check -r all"
    : undefined;
}

function hasPartialSector({ format }: JsonObject, { bytes }: InspectedDisk): string | undefined {
  return format === "qcow2" || bytes % SECTOR_BYTES === 0
    ? undefined
    : `its ${String(bytes)} bytes are not a whole number of ${String(SECTOR_BYTES)}-byte sectors: it is not a disk, or the download is incomplete`;
}

function hasInvalidSize(info: JsonObject): string | undefined {
  const size = info["virtual-size"];
  if (typeof size !== "number" || size <= 0) return "it is empty";
  return size <= VIRTUAL_BYTES_MAX ? undefined : "its disk would be larger than 64 TiB";
}

/**
 * Checks the output of qemu-img. A disk must not refer to other files. Source: ImageInfo in qapi/block-core.json of QEMU.
 * @throws AppError with IMAGE_SOURCE_INVALID
 */
export function checkDisk(file: InspectedDisk): Disk {
  const value = parseJson(file.info);
  const info = isJsonObject(value) ? value : {};
  for (const rule of CHECKS) {
    const reason = rule(info, file);
    if (reason !== undefined) {
      throw new AppError("IMAGE_SOURCE_INVALID", { source: file.source, reason });
    }
  }
  const format = info["format"] === "qcow2" ? "qcow2" : "raw";
  return { format, virtualBytes: Number(info["virtual-size"]) };
}

/** Number of copies: in the image's root, in the archive and in containerd. */
const COPIES = 3;
/** Directory of the disk in an image. Source: containerDisk of KubeVirt. */
const DIRECTORY = "disk";
const MIB = 2 ** 20;

interface Deps {
  readonly files: Files;
  readonly runner: ProcessRunner;
}

interface DiskCopy {
  /** Path as the user wrote it, for messages. */
  readonly source: string;
  /** Absolute path of the disk. */
  readonly path: string;
  /** Absolute path of the image's root, which must not exist. */
  readonly root: string;
}

export function printMib(bytes: number): string {
  return `${String(Math.ceil(bytes / MIB))} MiB`;
}

async function checkSpace({ files }: Deps, copy: DiskCopy, bytes: number): Promise<void> {
  const { freeBytes } = await files.readSpace(copy.root);
  const needed = bytes * COPIES;
  if (needed <= freeBytes) return;
  const reason = `it needs ${printMib(needed)} on the file system of ${copy.root}, which has ${printMib(freeBytes)} free`;
  throw new AppError("IMAGE_SOURCE_INVALID", { source: copy.source, reason });
}

/**
 * Copies the disk before it is inspected, so that guests get exactly what was checked.
 * @throws AppError with IMAGE_SOURCE_INVALID
 */
export async function copyDisk(deps: Deps, copy: DiskCopy): Promise<Disk & { bytes: number }> {
  const { source, path, root } = copy;
  const directory = join(root, DIRECTORY);
  const bytes = Number(
    await runSourceProgram(deps, source, ["stat", "--dereference", "--format=%s", path]),
  );
  await deps.files.ensureDirectory(directory);
  await checkSpace(deps, copy, bytes);
  const temporary = join(directory, "file");
  await runSourceProgram(deps, source, [
    "cp",
    "--reflink=auto",
    "--sparse=always",
    path,
    temporary,
  ]);
  const user = String(names.LAUNCHER_UID);
  await runSourceProgram(deps, source, ["chown", `${user}:${user}`, temporary]);
  await runSourceProgram(deps, source, ["chmod", "0440", temporary]);
  const info = await inspectDisk(deps.runner, { path: temporary, source });
  const disk = checkDisk({ source, bytes, info });
  const name = disk.format === "qcow2" ? "disk.qcow2" : "disk.img";
  await runSourceProgram(deps, source, ["mv", temporary, join(directory, name)]);
  return { ...disk, bytes };
}
