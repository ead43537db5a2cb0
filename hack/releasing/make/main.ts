// SPDX-License-Identifier: Apache-2.0
// Makes the artifacts of a release from the tree that contains this file. Usage: main.ts RELEASE    RELEASE: JSON
import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { ARTIFACTS } from "../artifacts.ts";
import type { Release } from "../release.ts";
import { seal } from "../seal.ts";

process.umask(0o022); // The caller's umask must not hide files from other users.

const release = JSON.parse(process.argv[2] ?? "") as Release; // The cast is safe, because hack/release writes the argument.
mkdirSync(release.output, { recursive: true });
// Removes entries instead of the folder, which may be a mount.
for (const name of readdirSync(release.output)) {
  rmSync(join(release.output, name), { recursive: true });
}
for (const { name, make } of ARTIFACTS) {
  const start = performance.now();
  await make(release);
  const seconds = ((performance.now() - start) / 1000).toFixed(0);
  process.stderr.write(`release: made ${name} in ${seconds} s\n`);
}
seal(release);
