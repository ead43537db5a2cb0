// SPDX-License-Identifier: Apache-2.0
// Makes an archive of the command line for each architecture, its bill of materials, and the manifest of the kubectl plugin.
import { chmodSync, cpSync, globSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import { makeBom, type NpmPackage } from "../images/sbom/bom.ts";
import { findForeignFiles, findNodePackage, NODE } from "./foreign-files.ts";
import { withReleasedNames } from "./image-names.ts";
import { readImages } from "./images.ts";
import { renderKrewManifest } from "./krew.ts";
import { emptyDirectory, pack, read, ROOT, run, sha256OfFile, type Release } from "./release.ts";

const PROGRAM = "packages/cli/bin/patchbay";
/** Starts the program from the folder that users see first. */
const START = "patchbay";
const START_SCRIPT = `#!/bin/sh
exec "$(dirname "$(readlink -f "$0")")/${PROGRAM}" "$@"
`;
/** Files that the bundled program reads. It contains the code of all libraries. */
const FILES: readonly string[] = [
  "LICENSE",
  "packages/cli/package.json",
  "packages/cli/bin/*",
  "packages/panel/dist/web/**",
  "packages/adapters/os/package.json",
  "packages/adapters/os/bin/*",
  "packages/common/manifests/**/*.yaml",
  "crds/**/*.yaml",
];
const ADDON = "packages/adapters/os/build/os.node";
const LICENSES = /^(licen[cs]e|copying|notice)/i;

/** @throws if the pattern matches no file */
function listFiles(pattern: string): readonly string[] {
  const files = globSync(pattern, { cwd: ROOT, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(ROOT, join(entry.parentPath, entry.name)));
  if (files.length === 0) throw new Error(`the command line needs ${pattern}, which is missing`);
  return files;
}

/** Lists the files of the last build. */
function listBundle(): readonly string[] {
  const folder = "packages/cli/dist/bundle";
  const text = readFileSync(join(ROOT, folder, "files.json"), "utf8");
  return (JSON.parse(text) as readonly string[]).map((name) => join(folder, name));
}

/** Lists the libraries in the program, as folders below the root. */
function listLibraries(): readonly string[] {
  const argv = ["npm", "ls", "--loglevel=error", "--omit=dev", "--all", "--parseable"];
  const paths = read([...argv, "--workspace", "packages/cli"]).split("\n");
  const found = paths.filter((path) => path.startsWith(`${ROOT}/node_modules/`));
  return [...new Set(found.map((path) => relative(ROOT, path)))]
    .filter((path) => !path.startsWith("node_modules/@patchbay/"))
    .sort();
}

function readManifest(folder: string): NpmPackage {
  // The cast is safe enough, because the bill's builder validates the fields that it reads.
  return JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as NpmPackage;
}

/** Copies one file to the same path below the folder, with the names of the release's images in it. */
function copyText(path: string, folder: string, change: (text: string) => string): void {
  const target = join(folder, path);
  mkdirSync(dirname(target), { recursive: true });
  const bytes = readFileSync(join(ROOT, path));
  const isText = /\.(js|yaml|json)$/.test(path);
  writeFileSync(target, isText ? change(bytes.toString("utf8")) : bytes);
  if (/\/bin\/[^./]+$/.test(path)) chmodSync(target, 0o755);
}

/** Copies the license files of a package to a folder named after it. */
function copyLicenses(source: string, name: string, folder: string): void {
  for (const file of globSync("*", { cwd: source }).filter((each) => LICENSES.test(each))) {
    cpSync(join(source, file), join(folder, "licenses", name, file));
  }
}

/** Fills a folder with the command line. Contains no links, because Krew does not unpack them. `foreign`: as from `findForeignFiles` */
function fill(folder: string, foreign: string, release: Release): void {
  const images = readImages(release);
  const change = (text: string): string => withReleasedNames(text, images);
  for (const path of [...FILES.flatMap(listFiles), ...listBundle()].sort()) {
    copyText(path, folder, change);
  }
  writeFileSync(join(folder, START), START_SCRIPT, { mode: 0o755 });
  for (const [path, mode] of [
    [ADDON, 0o644],
    [NODE, 0o755],
  ] as const) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), readFileSync(join(foreign, path)));
    chmodSync(join(folder, path), mode);
  }
}

export function makeCommandLine(release: Release): void {
  const { version, architectures, url, output, work } = release;
  run(["npm", "run", "-s", "build"]);
  const libraries = listLibraries();
  const folder = `patchbay-${version}`;
  const built = architectures.map((architecture) => {
    const foreign = findForeignFiles(architecture);
    return { architecture, foreign, node: findNodePackage(foreign) };
  });
  const platforms = built.map(({ architecture, foreign, node }) => {
    const parent = emptyDirectory(join(work, "command-line", architecture));
    const target = join(parent, folder);
    fill(target, foreign, release);
    for (const library of libraries) {
      copyLicenses(join(ROOT, library), library.replaceAll("node_modules/", ""), target);
    }
    copyLicenses(node, basename(node), target);
    const to = join(output, `patchbay-cli-${version}-linux-${architecture}.tar.gz`);
    pack(release, { from: parent, to, names: [folder] });
    return { architecture, uri: `${url}/${basename(to)}`, sha256: sha256OfFile(to) };
  });
  const krew = renderKrewManifest(version, platforms, { folder, program: START });
  writeFileSync(join(output, "patchbay-krew.yaml"), krew);
  const bill = makeBom({
    type: "application",
    reference: `patchbay-cli-${version}`,
    digest: version,
    debian: [],
    npm: [...libraries.map((path) => join(ROOT, path)), ...built.map(({ node }) => node)].map(
      readManifest,
    ),
  });
  writeFileSync(join(output, `sbom-patchbay-cli-${version}.cdx.json`), bill);
}
