// SPDX-License-Identifier: Apache-2.0
// Makes the Debian package of a standalone machine for each architecture, and its bill of materials.
import { globSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { makeBom, type NpmPackage } from "../images/sbom/bom.ts";
import { findForeignFiles } from "./foreign-files.ts";
import { directoryOf } from "./images.ts";
import {
  buildEnvironment,
  emptyDirectory,
  read,
  ROOT,
  run,
  type Architecture,
  type Release,
} from "./release.ts";

/** Returns the path of the package. The package contains the images that `makeImages` has made. */
function build(release: Release, architecture: Architecture): string {
  const foreign = findForeignFiles(architecture);
  const argv = [join(ROOT, "hack/deb/make"), release.output, release.version, architecture];
  return read(argv, {
    ...buildEnvironment(release),
    PATCHBAY_IMAGES_DIR: directoryOf(release, architecture),
    ...(foreign !== ROOT && { PATCHBAY_FOREIGN_DIR: foreign }),
  }).trim();
}

/** Returns the npm packages in a Debian package, with Node.js. */
function readNpmPackages(archive: string, directory: string): readonly NpmPackage[] {
  const script = 'dpkg-deb --fsys-tarfile "$1" | tar -C "$2" --wildcards -xf - "$3"';
  const manifests = "*/node_modules/*/package.json";
  run(["sh", "-euc", script, "sh", archive, emptyDirectory(directory), manifests]);
  return (
    globSync("**/package.json", { cwd: directory })
      .sort()
      // The cast is safe enough, because the bill's builder validates the fields that it reads.
      .map((path) => JSON.parse(readFileSync(join(directory, path), "utf8")) as NpmPackage)
  );
}

/**
 * Makes `patchbay_VERSION_ARCH.deb`. Its bill lists the npm packages; the Debian packages in its two images are in the bills of
 * these images.
 */
export function makeDebianPackages(release: Release): void {
  const { version, architectures, output, work } = release;
  for (const architecture of architectures) {
    const archive = build(release, architecture);
    const bill = makeBom({
      type: "application",
      reference: basename(archive),
      digest: version,
      debian: [],
      npm: readNpmPackages(archive, join(work, "debian-package")),
    });
    writeFileSync(join(output, `sbom-patchbay-deb-${version}-${architecture}.cdx.json`), bill);
  }
}
