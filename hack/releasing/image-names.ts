// SPDX-License-Identifier: Apache-2.0
// Names of the images in a release, in place of those of a build in a clone.
import { names } from "@patchbay/api";

export const IMAGES = ["pause", "virt-launcher", "patchbay", "sidecar-shim"] as const;
export type ImageName = (typeof IMAGES)[number];

/** Names in the sources. */
const BUILD_NAMES: Readonly<Record<ImageName, string>> = {
  pause: names.PAUSE_IMAGE,
  "virt-launcher": names.LAUNCHER_IMAGE,
  patchbay: names.PATCHBAY_IMAGE,
  "sidecar-shim": names.SIDECAR_SHIM_IMAGE,
};

/** An image of a release, in its file `images.json`. */
export interface ReleasedImage {
  /** Name with the version as tag. */
  readonly tag: string;
  /** Digest of the index, which names the manifest of each architecture. */
  readonly digest: string;
  /** Compressed size in bytes by architecture. */
  readonly bytes: Readonly<Record<string, number>>;
}

export type ReleasedImages = Readonly<Record<ImageName, ReleasedImage>>;

export function buildTag(registry: string, image: ImageName, version: string): string {
  return `${registry}/${image}:${version}`;
}

/** The name that manifests use. Runtimes resolve the digest and ignore the tag, which users read. */
export function toReference({ tag, digest }: ReleasedImage): string {
  return `${tag}@${digest}`;
}

/** Replaces names of builds in a text. @throws if a name of a build remains */
export function withReleasedNames(text: string, images: ReleasedImages): string {
  const replaced = IMAGES.reduce(
    (changed, image) => changed.replaceAll(BUILD_NAMES[image], toReference(images[image])),
    text,
  );
  const [left] = /localhost\/patchbay\/[^\s"']*/.exec(replaced) ?? [];
  if (left !== undefined) throw new Error(`the release has no image for ${left}`);
  return replaced;
}

/** Limits of compressed images in bytes. */
const MAX_BYTES: Readonly<Partial<Record<ImageName, number>>> = {
  patchbay: 120_000_000,
  "virt-launcher": 250_000_000,
};

function printMegabytes(bytes: number): string {
  return `${(bytes / 1_000_000).toFixed(1)} MB`;
}

/** Returns a line for each image that exceeds its limit. */
export function findOversized(images: Partial<ReleasedImages>): readonly string[] {
  return IMAGES.flatMap((image) => {
    const limit = MAX_BYTES[image] ?? Infinity;
    return Object.entries(images[image]?.bytes ?? {})
      .filter(([, bytes]) => bytes > limit)
      .map(
        ([architecture, bytes]) =>
          `image ${image} for ${architecture} has ${printMegabytes(bytes)}, more than ${printMegabytes(limit)}`,
      );
  });
}
