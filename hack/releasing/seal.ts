// SPDX-License-Identifier: Apache-2.0
// Checksums, provenance and signature of a release's artifacts.
import type { KeyObject } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { renderProvenance } from "./provenance.ts";
import { ROOT, sha256OfFile, type Release } from "./release.ts";
import { printPublicKey, sign } from "./signature.ts";

const SUMS = "SHA256SUMS";
const LOCKS = ["package-lock.json", "hack/tools/package-lock.json"];

function hashFiles(directory: string, names: readonly string[]): ReadonlyMap<string, string> {
  return new Map(names.map((name) => [name, sha256OfFile(join(directory, name))]));
}

/** The format of sha256sum(1). */
function renderSums(hashes: ReadonlyMap<string, string>): string {
  return [...hashes].map(([name, hash]) => `${hash}  ${name}\n`).join("");
}

/** Writes the provenance of all files in the output, then the checksums of all files with the provenance. */
export function seal(release: Release): void {
  const { output, version } = release;
  const files = hashFiles(output, readdirSync(output).sort());
  const provenance = renderProvenance({ ...release, files, locks: hashFiles(ROOT, LOCKS) });
  writeFileSync(join(output, `patchbay-${version}.provenance.json`), provenance);
  writeFileSync(join(output, SUMS), renderSums(hashFiles(output, readdirSync(output).sort())));
}

/** Writes the signature of the checksums in base64, as cosign reads it, and the public key. */
export function writeSignature({ output }: Pick<Release, "output">, key: KeyObject): void {
  const sums = readFileSync(join(output, SUMS), "utf8");
  writeFileSync(join(output, `${SUMS}.sig`), `${sign(key, sums).toString("base64")}\n`);
  writeFileSync(join(output, "cosign.pub"), printPublicKey(key));
}
