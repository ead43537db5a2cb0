// SPDX-License-Identifier: Apache-2.0
// May a file be a disk that VMs boot from? Decided by what qemu-img says of it; pure. A disk is hostile input: what names
// another file, or another format inside, is refused. Source: QEMU qapi/block-core.json, ImageInfo.
import { isJsonObject, parseJson, type JsonObject } from "@patchbay/api/json";
import { AppError } from "@patchbay/core";

/** A disk that may be wrapped. */
export interface Disk {
  readonly format: "qcow2" | "raw";
  /** As large as the guest sees it, bytes. */
  readonly virtualBytes: number;
}

/** A file and what was said of it. */
export interface LookedAt {
  /** As the user named it. */
  readonly source: string;
  readonly bytes: number;
  /** What `qemu-img info --output=json` printed. */
  readonly info: string;
}

/** A guest's disk has whole sectors, and a download that broke off, or an error page, seldom has. */
const SECTOR = 512;
/** More than any disk that people have, and less than what wears tools out: 64 TiB. */
const VIRTUAL_MAX = 64 * 2 ** 40;
/** Of what a file says, characters. */
const QUOTE_MAX = 200;

/** Each reason to refuse, in the order in which a person is told. */
const RULES: readonly ((info: JsonObject, file: LookedAt) => string | undefined)[] = [
  unreadable,
  otherFormat,
  misnamed,
  namesAnotherFile,
  cannotBeRead,
  noWholeSectors,
  wrongSize,
];

function unreadable({ format }: JsonObject): string | undefined {
  return typeof format === "string" ? undefined : "qemu-img does not report its format";
}

function otherFormat({ format }: JsonObject, { source }: LookedAt): string | undefined {
  if (format === "qcow2" || format === "raw") return undefined;
  const target = `${source.replace(/\.\w+$/, "")}.qcow2`;
  return `its format is ${String(format)}, and only raw and qcow2 are supported; convert it with: qemu-img convert -O qcow2 ${source} ${target}`;
}

/** What a guest has written to a raw disk may look like a qcow2 file. */
function misnamed({ format }: JsonObject, { source }: LookedAt): string | undefined {
  const [, named = ""] = /\.(raw|iso|qcow2)$/i.exec(source) ?? [];
  const wanted = named.toLowerCase() === "qcow2" ? "qcow2" : "raw";
  if (named === "" || format === wanted) return undefined;
  return wanted === "raw"
    ? `it is named ${named} and holds a disk of format ${String(format)}; rename it if that is intended`
    : "it is named qcow2 but is not a qcow2 disk; check that the download is complete";
}

function specificOf(info: JsonObject): JsonObject {
  const specific = info["format-specific"];
  const data = isJsonObject(specific) ? specific["data"] : undefined;
  return isJsonObject(data) ? data : {};
}

/** What a hostile file says of itself may hold what terminals obey. */
function quote(value: unknown): string {
  return JSON.stringify(value).slice(0, QUOTE_MAX);
}

function namesAnotherFile(info: JsonObject): string | undefined {
  const backing = info["backing-filename"] ?? info["full-backing-filename"];
  const data = specificOf(info)["data-file"];
  if (backing !== undefined) {
    return `it is an overlay of the file ${quote(backing)} and holds only a part of the disk; make a complete disk with: qemu-img convert -O qcow2`;
  }
  return data === undefined ? undefined : `its data is in another file, ${quote(data)}`;
}

function cannotBeRead(info: JsonObject): string | undefined {
  if (info["encrypted"] === true) return "it is encrypted, and nothing here can supply the key";
  return specificOf(info)["corrupt"] === true
    ? "it is marked as corrupt; repair it with: qemu-img check -r all"
    : undefined;
}

function noWholeSectors({ format }: JsonObject, { bytes }: LookedAt): string | undefined {
  return format === "qcow2" || bytes % SECTOR === 0
    ? undefined
    : `its ${String(bytes)} bytes are not a whole number of ${String(SECTOR)}-byte sectors: it is not a disk, or the download is incomplete`;
}

function wrongSize(info: JsonObject): string | undefined {
  const size = info["virtual-size"];
  if (typeof size !== "number" || size <= 0) return "it is empty";
  return size <= VIRTUAL_MAX ? undefined : "its disk would be larger than 64 TiB";
}

/**
 * What disk it is.
 * @throws AppError with IMAGE_SOURCE_INVALID
 */
export function judgeDisk(file: LookedAt): Disk {
  const value = parseJson(file.info);
  const info = isJsonObject(value) ? value : {};
  for (const rule of RULES) {
    const reason = rule(info, file);
    if (reason !== undefined) {
      throw new AppError("IMAGE_SOURCE_INVALID", { source: file.source, reason });
    }
  }
  const format = info["format"] === "qcow2" ? "qcow2" : "raw";
  return { format, virtualBytes: Number(info["virtual-size"]) };
}
