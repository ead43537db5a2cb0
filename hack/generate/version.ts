// SPDX-License-Identifier: Apache-2.0
// Copies the version in the root's package.json to the other packages, to the lock file, and into the programs.
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";

const SCOPE = "@patchbay/";
/** Workspaces. Source: `workspaces` of the root's package.json. */
const MANIFESTS = ["packages/*/*/package.json", "packages/{panel,cli}/package.json"];
const TESTS = "tests/support/package.json";
const LOCK = "package-lock.json";

interface Manifest {
  version?: string;
  dependencies?: Record<string, string>;
  devDependencies?: Record<string, string>;
}

/** Returns the manifest with its own version and those of Patchbay's packages replaced. Preserves the order of all members. */
function withVersion<T extends Manifest>(manifest: T, version: string): T {
  const replaced = (versions: Record<string, string>): Record<string, string> =>
    Object.fromEntries(
      Object.entries(versions).map(([name, each]) => [
        name,
        name.startsWith(SCOPE) ? version : each,
      ]),
    );
  const { dependencies, devDependencies } = manifest;
  return {
    ...manifest,
    version,
    ...(dependencies && { dependencies: replaced(dependencies) }),
    ...(devDependencies && { devDependencies: replaced(devDependencies) }),
  };
}

function print(value: unknown): string {
  return `${JSON.stringify(value, undefined, 2)}\n`;
}

export function renderManifest(text: string, version: string): string {
  return print(withVersion(JSON.parse(text) as Manifest, version));
}

/** Entries of other projects' packages are below a `node_modules`. Links to Patchbay's packages have no version. */
export function renderLock(text: string, version: string): string {
  const lock = JSON.parse(text) as { readonly packages: Readonly<Record<string, Manifest>> };
  const packages = Object.entries(lock.packages).map(([path, entry]) => [
    path,
    path.includes("node_modules/") ? entry : withVersion(entry, version),
  ]);
  return print({ ...lock, version, packages: Object.fromEntries(packages) as unknown });
}

function renderConstant(version: string): string {
  return [
    "// SPDX-License-Identifier: Apache-2.0",
    "// Generated from the root's package.json; do not edit. Run: npm run gen",
    `export const VERSION = ${JSON.stringify(version)};`,
    "",
  ].join("\n");
}

export function readVersion(root: string): string {
  const text = readFileSync(join(root, "package.json"), "utf8");
  return (JSON.parse(text) as { readonly version: string }).version;
}

/** Returns texts by path below the root. */
export function renderVersion(root: string): ReadonlyMap<string, string> {
  const version = readVersion(root);
  const read = (path: string): string => readFileSync(join(root, path), "utf8");
  return new Map([
    ["packages/common/base/src/version.ts", renderConstant(version)],
    ...[...globSync(MANIFESTS, { cwd: root }).sort(), TESTS].map((path): [string, string] => [
      path,
      renderManifest(read(path), version),
    ]),
    [LOCK, renderLock(read(LOCK), version)],
  ]);
}
