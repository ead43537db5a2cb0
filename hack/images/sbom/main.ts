// SPDX-License-Identifier: Apache-2.0
// Prints the bill of materials of an image.
// Usage: main.ts REFERENCE DIGEST DIRECTORY    DIRECTORY: status, copyright/PACKAGE/copyright, npm/**/package.json
import { existsSync, globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { makeBom, type NpmPackage } from "./bom.ts";
import { licencesOf, parsePackages } from "./debian.ts";

process.umask(0o022); // The caller's umask must not hide files from other users.
process.umask(0o022); // The caller's umask must not hide files from other users.

const [reference, digest, directory] = process.argv.slice(2);
if (reference === undefined || digest === undefined || directory === undefined) {
  throw new Error("usage: main.ts REFERENCE DIGEST DIRECTORY");
}

function readOptional(path: string): string {
  return existsSync(path) ? readFileSync(path, "utf8") : "";
}

const packages = parsePackages(readOptional(join(directory, "status")));
const debian = packages.map((item) => {
  const copyright = readOptional(join(directory, "copyright", item.name, "copyright"));
  return { ...item, licences: licencesOf(item.name, copyright) };
});
const npm = globSync("npm/**/package.json", { cwd: directory })
  .sort()
  // The cast is safe enough, because the builder validates the fields that it reads.
  .map((path) => JSON.parse(readFileSync(join(directory, path), "utf8")) as NpmPackage);
process.stdout.write(makeBom({ reference, digest, debian, npm }));
