// SPDX-License-Identifier: Apache-2.0
// Makes each image for each architecture, runs a program of it, and joins the architectures in one archive.
import { copyFileSync, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { buildIndex, readDescriptor } from "./image-index.ts";
import {
  buildTag,
  findOversized,
  IMAGES,
  type ImageName,
  type ReleasedImage,
  type ReleasedImages,
} from "./image-names.ts";
import {
  buildEnvironment,
  emptyDirectory,
  pack,
  ROOT,
  run,
  type Architecture,
  type Release,
} from "./release.ts";
import { tryImage } from "./try-image.ts";

const FILE = "images.json";

/** Returns the images that the artifact `images` has made. */
export function readImages({ output }: Release): ReleasedImages {
  return JSON.parse(readFileSync(join(output, FILE), "utf8")) as ReleasedImages;
}

/** Directory of one architecture's archives and bills of materials, `NAME.tar` and `NAME.cdx.json`. */
export function directoryOf({ work }: Release, architecture: Architecture): string {
  return join(work, "images", architecture);
}

function build(release: Release, architecture: Architecture, images: readonly ImageName[]): void {
  const directory = directoryOf(release, architecture);
  mkdirSync(directory, { recursive: true });
  run([join(ROOT, "hack/images/make-images"), ...images], {
    ...buildEnvironment(release),
    PATCHBAY_ARCHITECTURE: architecture,
    PATCHBAY_IMAGES_DIR: directory,
    PATCHBAY_IMAGES_REGISTRY: release.registry,
    PATCHBAY_IMAGES_TAG: release.version,
  });
}

function joinArchitectures(release: Release, image: ImageName): ReleasedImage {
  const { version, registry, architectures, output, work } = release;
  const layout = emptyDirectory(join(work, "layout"));
  const archives = architectures.map((architecture) => ({
    architecture,
    path: join(directoryOf(release, architecture), `${image}.tar`),
  }));
  const built = archives.map(({ architecture, path }) => {
    run(["tar", "-C", layout, "-xf", path]);
    const descriptor = readDescriptor(readFileSync(join(layout, "index.json"), "utf8"));
    return { architecture, descriptor };
  });
  const tag = buildTag(registry, image, version);
  const { blob, digest, layoutIndex } = buildIndex(built, tag, version);
  writeFileSync(join(layout, "blobs", digest.replace(":", "/")), blob);
  writeFileSync(join(layout, "index.json"), layoutIndex);
  const names = ["oci-layout", "index.json", "blobs"];
  pack(release, { from: layout, to: join(output, `image-${image}-${version}.tar`), names });
  const sizes = archives.map(({ architecture, path }) => [architecture, statSync(path).size]);
  return { tag, digest, bytes: Object.fromEntries(sizes) as Record<string, number> };
}

/** Makes `image-NAME-VERSION.tar`, the bills of materials, and `images.json` with the digests. */
export function makeImages(release: Release, images: readonly ImageName[]): void {
  const { version, architectures, output } = release;
  for (const architecture of architectures) {
    build(release, architecture, images);
    const directory = directoryOf(release, architecture);
    for (const image of images) {
      tryImage({ architecture, image, archive: join(directory, `${image}.tar`), version });
      const bill = `sbom-${image}-${version}-${architecture}.cdx.json`;
      copyFileSync(join(directory, `${image}.cdx.json`), join(output, bill));
    }
  }
  const released = Object.fromEntries(
    images.map((image) => [image, joinArchitectures(release, image)]),
  );
  const oversized = findOversized(released);
  if (oversized.length > 0) throw new Error(oversized.join("\n"));
  writeFileSync(join(output, FILE), `${JSON.stringify(released, undefined, 2)}\n`);
}

export function makeAllImages(release: Release): void {
  makeImages(release, IMAGES);
}
