// SPDX-License-Identifier: Apache-2.0
// Inspects disk files with qemu-img in a sandbox, and copies them into the root of an image.
import { names } from "@patchbay/api";
import { AppError } from "@patchbay/base";
import type { ProcessRunner, Files } from "@patchbay/core/interfaces";
import { isJsonObject, parseJson, type JsonObject } from "@patchbay/api/json";
import { join } from "node:path";
import { runSourceProgram } from "@patchbay/containerd";

const INSPECT_TIMEOUT_MS = 60_000;
// Limits of qemu-img. A valid file requires far less: 20 MiB of memory and less than one second.
const MEMORY_BYTES = 2 ** 30;
const CPU_SECONDS = 10;
const FILES_MAX = 64;
/** Exit code of setpriv, prlimit and unshare if the executed program is missing. Source: setpriv(1), prlimit(1), unshare(1). */
const EXIT_NOT_FOUND = 127;
const REASON_LENGTH_MAX = 300;

const USER = String(names.LAUNCHER_UID);
const SANDBOX_COMMAND = [
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
/** Script that opens the file before setpriv changes the user, because the launchers' user may not have access to the file. */
const OPEN_AS_STDIN_SCRIPT = 'file=$1; shift; exec "$@" <"$file"';

/**
 * Returns the output of qemu-img. Runs qemu-img without privileges, because a hostile file could exploit it.
 * @throws AppError with IMAGE_SOURCE_INVALID, OS_PROGRAM_MISSING, OS_TIMED_OUT
 */
export async function inspectDisk(
  runner: ProcessRunner,
  { path, source }: { readonly path: string; readonly source: string },
): Promise<string> {
  const info = ["qemu-img", "info", "--output=json", "/dev/stdin"];
  const { exitCode, stdout, stderr } = await runner.run({
    argv: ["sh", "-c", OPEN_AS_STDIN_SCRIPT, "sh", path, ...SANDBOX_COMMAND, ...info],
    timeoutMs: INSPECT_TIMEOUT_MS,
  });
  if (exitCode === 0) return stdout;
  if (exitCode === EXIT_NOT_FOUND)
    throw new AppError("OS_PROGRAM_MISSING", { program: "qemu-img" });
  const lastLine = stderr.trim().split("\n").at(-1) ?? "";
  // Replaces control characters, because they could manipulate the user's terminal.
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

/** Size of a sector. A raw file that ends within a sector is not a disk, or was not downloaded completely. */
const SECTOR_BYTES = 512;
/** Maximum virtual size of a disk, 64 TiB. Real disks are smaller. */
const VIRTUAL_BYTES_MAX = 64 * 2 ** 40;
const QUOTE_LENGTH_MAX = 200;

/** Checks of a disk, in the order in which they run. Each check returns the reason for a rejection, or undefined. */
const CHECKS: readonly ((info: JsonObject, file: InspectedDisk) => string | undefined)[] = [
  checkFormatReported,
  checkFormatSupported,
  checkSuffix,
  checkSelfContained,
  checkReadable,
  checkSectors,
  checkSize,
];

function checkFormatReported({ format }: JsonObject): string | undefined {
  return typeof format === "string" ? undefined : "qemu-img does not report its format";
}

function checkFormatSupported(
  { format }: JsonObject,
  { source }: InspectedDisk,
): string | undefined {
  if (format === "qcow2" || format === "raw") return undefined;
  const target = `${source.replace(/\.\w+$/, "")}.qcow2`;
  return `its format is ${String(format)}, and only raw and qcow2 are supported; convert it with: qemu-img convert -O qcow2 ${source} ${target}`;
}

/** Rejects a suffix that contradicts the format. A guest could write a qcow2 header, which may name files of the host, to a raw disk. */
function checkSuffix({ format }: JsonObject, { source }: InspectedDisk): string | undefined {
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

/** Quotes a value and escapes control characters, with which a hostile file could manipulate the user's terminal. */
function quote(value: unknown): string {
  return JSON.stringify(value).slice(0, QUOTE_LENGTH_MAX);
}

function checkSelfContained(info: JsonObject): string | undefined {
  const backing = info["backing-filename"] ?? info["full-backing-filename"];
  const data = findSpecificData(info)["data-file"];
  if (backing !== undefined) {
    return `it is an overlay of the file ${quote(backing)} and contains only a part of the disk; create a complete disk with: qemu-img convert -O qcow2`;
  }
  return data === undefined ? undefined : `its data is in another file, ${quote(data)}`;
}

function checkReadable(info: JsonObject): string | undefined {
  if (info["encrypted"] === true)
    return "it is encrypted, which is not supported; decrypt it with: qemu-img convert";
  return findSpecificData(info)["corrupt"] === true
    ? "it is marked as corrupt; repair it with: qemu-img check -r all"
    : undefined;
}

function checkSectors({ format }: JsonObject, { bytes }: InspectedDisk): string | undefined {
  return format === "qcow2" || bytes % SECTOR_BYTES === 0
    ? undefined
    : `its ${String(bytes)} bytes are not a whole number of ${String(SECTOR_BYTES)}-byte sectors: it is not a disk, or the download is incomplete`;
}

function checkSize(info: JsonObject): string | undefined {
  const size = info["virtual-size"];
  if (typeof size !== "number" || size <= 0) return "it is empty";
  return size <= VIRTUAL_BYTES_MAX ? undefined : "its disk would be larger than 64 TiB";
}

/** Checks the output of qemu-img. Source: ImageInfo in qapi/block-core.json of QEMU. @throws AppError with IMAGE_SOURCE_INVALID */
export function checkDisk(file: InspectedDisk): Disk {
  const value = parseJson(file.info);
  const info = isJsonObject(value) ? value : {};
  for (const check of CHECKS) {
    const reason = check(info, file);
    if (reason !== undefined) {
      throw new AppError("IMAGE_SOURCE_INVALID", { source: file.source, reason });
    }
  }
  const format = info["format"] === "qcow2" ? "qcow2" : "raw";
  return { format, virtualBytes: Number(info["virtual-size"]) };
}

/** Number of copies of the disk that must fit on the file system: in the image's root directory, in the archive and in containerd. */
const COPY_COUNT = 3;
/** Directory that contains the disk in an image. Source: containerDisk of KubeVirt. */
const DISK_DIRECTORY = "disk";
const BYTES_PER_MIB = 2 ** 20;

interface Deps {
  readonly files: Files;
  readonly runner: ProcessRunner;
}

interface DiskCopy {
  /** Path as the user wrote it, for messages. */
  readonly source: string;
  readonly path: string;
  /** Absolute path of the image's root directory. It must not exist before the call. */
  readonly root: string;
}

export function printMib(bytes: number): string {
  return `${String(Math.ceil(bytes / BYTES_PER_MIB))} MiB`;
}

async function checkSpace({ files }: Deps, copy: DiskCopy, bytes: number): Promise<void> {
  const { freeBytes } = await files.readSpace(copy.root);
  const neededBytes = bytes * COPY_COUNT;
  if (neededBytes <= freeBytes) return;
  const reason = `it needs ${printMib(neededBytes)} on the file system of ${copy.root}, which has ${printMib(freeBytes)} free`;
  throw new AppError("IMAGE_SOURCE_INVALID", { source: copy.source, reason });
}

/** Copies a disk and inspects the copy, so that the disk cannot change after the inspection. @throws AppError with IMAGE_SOURCE_INVALID */
export async function copyDisk(deps: Deps, copy: DiskCopy): Promise<Disk & { bytes: number }> {
  const { source, path, root } = copy;
  const directory = join(root, DISK_DIRECTORY);
  const bytes = Number(
    await runSourceProgram(deps, source, ["stat", "--dereference", "--format=%s", path]),
  );
  await deps.files.ensureDirectory(directory);
  await checkSpace(deps, copy, bytes);
  const temporaryFile = join(directory, "file");
  await runSourceProgram(deps, source, [
    "cp",
    "--reflink=auto",
    "--sparse=always",
    path,
    temporaryFile,
  ]);
  const launcherUid = String(names.LAUNCHER_UID);
  await runSourceProgram(deps, source, ["chown", `${launcherUid}:${launcherUid}`, temporaryFile]);
  await runSourceProgram(deps, source, ["chmod", "0440", temporaryFile]);
  const info = await inspectDisk(deps.runner, { path: temporaryFile, source });
  const disk = checkDisk({ source, bytes, info });
  const name = disk.format === "qcow2" ? "disk.qcow2" : "disk.img";
  await runSourceProgram(deps, source, ["mv", temporaryFile, join(directory, name)]);
  return { ...disk, bytes };
}
