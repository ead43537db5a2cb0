// SPDX-License-Identifier: Apache-2.0
// No file contains names of one machine or registry, and each has a known type.
import { existsSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import { expect, test } from "vitest";
import { findMentions, listFiles, printMention, readText, ROOT } from "./documents.ts";

const MAX_BYTES = 2_000_000;

const files = listFiles()
  .map((path) => ({ path, full: join(ROOT, path) }))
  .filter(({ full }) => existsSync(full) && statSync(full).isFile())
  .filter(({ full }) => statSync(full).size < MAX_BYTES)
  .map(({ path }) => ({ path, text: readText(path) }));

/** Split, so that this file does not match its own pattern. */
const MACHINE_PATH = new RegExp(
  `((?<![\\w.])/(?:${["wo" + "rk", "ho" + "me", "Us" + "ers"].join("|")})/[\\w.-]+)`,
  "g",
);
const REGISTRY = new RegExp(
  `\\b((?:reg` + `istry|mir` + `ror|artifactory|nexus|pro` + `xy)\\.[a-z][\\w-]*\\.[a-z]{2,})`,
  "gi",
);

test("no file names a directory of a developer's machine", () => {
  expect(findMentions(files, MACHINE_PATH).map(printMention)).toEqual([]);
});

test("no file names the host of a package registry", () => {
  expect(findMentions(files, REGISTRY).map(printMention)).toEqual([]);
});

test("the lock files hold no download address", () => {
  const locks = files.filter(({ path }) => basename(path) === "package-lock.json");
  expect(locks.map(({ path }) => path)).toEqual([
    "hack/tools/package-lock.json",
    "package-lock.json",
  ]);
  expect(findMentions(locks, /"resolved": "([a-z+]+:.*)"/g).map(printMention)).toEqual([]);
});

test("hack/install uses the Node.js version of the programs", () => {
  const [bootstrap, project] = ["hack/tools/package.json", "package.json"].map(
    (path) => JSON.parse(readText(path)) as { readonly optionalDependencies: object },
  );
  expect(bootstrap?.optionalDependencies).toEqual(project?.optionalDependencies);
});

/** Allowed places of file types; a new type needs a new line. Names of folders and files do not begin with a dash. */
const NAME = String.raw`[\w.@][\w.@-]*`;
const FOLDERS = `(${NAME}/)*`;
const KINDS: readonly RegExp[] = [
  // Root files by name, which tools and users expect there.
  /^(README|ARCHITECTURE|CONTRIBUTING|SECURITY|CHANGELOG|AGENTS|CODE_OF_CONDUCT)\.md$|^LICENSE$/,
  /^\.(dependency-cruiser\.cjs|gitignore|jscpd\.json|npmrc|oxfmtrc\.json|oxlintrc\.json)$/,
  /^(vitest\.config\.ts|package(-lock)?\.json|knip(\.production)?\.json)$/,
  /^tsconfig(\.(base|pure|tests))?\.json$/,
  /^\.ci\/run$/,
  /^hack\/tools\/(\.npmrc|package(-lock)?\.json)$/,
  new RegExp(`^(crds|packages/common/manifests)/${FOLDERS}${NAME}\\.yaml$`),
  /^packages\/common\/manifests\/monitoring\/dashboard\.json$/,
  new RegExp(`^docs/${FOLDERS}${NAME}\\.md$`),
  // Files that an example's page applies, copies or builds.
  new RegExp(`^docs/examples/[\\w-]+/([\\w-]+|${NAME}\\.yaml)$`),
  // In a package; generated and measured files are beside their reader.
  /^packages\/([\w-]+\/)?[\w-]+\/(package|tsconfig)\.json$|^packages\/([\w-]+\/){1,2}README\.md$/,
  new RegExp(`^packages/${FOLDERS}(src/${FOLDERS}${NAME}\\.(ts|json|tsv|proto)|bin/[\\w-]+)$`),
  // Web files, and screenshots by tests.
  new RegExp(
    `^packages/panel/src/(view/${FOLDERS}${NAME}\\.tsx|style/${NAME}\\.css|index\\.html)$`,
  ),
  new RegExp(`^docs/pictures/${NAME}\\.png$`),
  new RegExp(
    `^packages/adapters/${FOLDERS}(native/${FOLDERS}${NAME}\\.(c|cc|h)|proto/${NAME}\\.proto)$`,
  ),
  new RegExp(`^packages/${FOLDERS}__golden__/${NAME}\\.xml$`),
  new RegExp(
    `^tests/${FOLDERS}${NAME}\\.(ts|md|yaml|c|sh)$|^tests/${FOLDERS}__golden__/${NAME}\\.json$`,
  ),
  /^tests\/support\/(package|tsconfig)\.json$/,
  new RegExp(`^tests/fixtures/versions/v[\\d.]+/${FOLDERS}${NAME}\\.(json|jsonl|sql|txt|yaml)$`),
  // Extensionless programs, their C sources, and image content.
  new RegExp(`^hack/${FOLDERS}([\\w-]+|${NAME}\\.(ts|c))$`),
  new RegExp(`^hack/guest/debian/(dpkg\\.cfg|files/${FOLDERS}${NAME})$`),
];

test("each file has an allowed type for its folder", () => {
  const isKnown = (path: string): boolean => KINDS.some((kind) => kind.test(path));
  expect(listFiles().filter((path) => !isKnown(path))).toEqual([]);
});

test.each([
  "--cache-location/_logs/2026-01-01T00_00_00_000Z-debug-0.log",
  "--cache-location/main.ts",
  "packages/control-plane/core/--cache/index.ts",
  "hack/-v/index.ts",
  "hack/notes.log",
  "npm-debug.log",
  "packages/control-plane/core/src/names.ts.orig",
  "packages/control-plane/core/dist/index.js",
  "tests/e2e/core",
  "docs/picture.png",
])("detects %s", (path) => {
  expect(KINDS.some((kind) => kind.test(path))).toBe(false);
});

test("every code file begins with its license", () => {
  const code = files.filter(({ path }) =>
    /^(packages|tests|hack)\/.*\.(tsx?|js|cjs|cc|h)$/.test(path),
  );
  const wrong = code.filter(
    ({ text }) =>
      !text.replace(/^#!.*\n/, "").startsWith("// SPDX-License-Identifier: Apache-2.0\n"),
  );
  expect(wrong.map(({ path }) => path)).toEqual([]);
});
