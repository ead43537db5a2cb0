// SPDX-License-Identifier: Apache-2.0
// What does a person mean by the source of an image? What is there counts; pure.
import { fullReference } from "@patchbay/containerd";
import { AppError } from "@patchbay/core";

/** Where an image comes from. */
export type ImageSource =
  | { readonly kind: "directory" | "archive" | "disk"; readonly path: string }
  | { readonly kind: "registry"; readonly reference: string };

/** What can only be a path. */
const PATH = /^(\.{0,2}\/|\.{1,2}$|~)/;
/** How disks are called; which format it is, the file itself says. */
const DISK = /\.(qcow2?|raw|img|iso|vmdk|vdi|vhdx?|vpc|qed)$/i;
/** A disk as distributions pack it. */
const PACKED = /\.(qcow2?|raw|img|iso)\.(gz|xz|zst|bz2)$/i;
const UNPACKERS: Readonly<Record<string, string>> = {
  gz: "gunzip",
  xz: "unxz",
  zst: "unzstd",
  bz2: "bunzip2",
};

function fileSource(source: string, path: string): ImageSource {
  const [, , packing] = PACKED.exec(source) ?? [];
  if (packing !== undefined) {
    const unpacker = UNPACKERS[packing.toLowerCase()] ?? "";
    const reason = `it is compressed; unpack it with: ${unpacker} ${source}`;
    throw new AppError("IMAGE_SOURCE_INVALID", { source, reason });
  }
  return { kind: DISK.test(source) ? "disk" : "archive", path };
}

/**
 * Decides by what is at `path`, which is the source as an absolute path; `kind` is what stat calls it.
 * @throws AppError with IMAGE_SOURCE_INVALID, IMAGE_NAME_INVALID
 */
export function sourceOf(source: string, path: string, kind: string | undefined): ImageSource {
  if (kind === "directory") return { kind, path };
  if (kind === "regular file" || kind === "regular empty file") return fileSource(source, path);
  if (kind !== undefined) {
    throw new AppError("IMAGE_SOURCE_INVALID", { source, reason: `it is a ${kind}` });
  }
  if (PATH.test(source) || DISK.test(source) || PACKED.test(source)) {
    throw new AppError("IMAGE_SOURCE_INVALID", { source, reason: "there is no such file" });
  }
  return { kind: "registry", reference: fullReference(source) };
}
