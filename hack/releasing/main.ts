// SPDX-License-Identifier: Apache-2.0
// Checks that a version can be released, makes its artifacts from a clean tree, and signs them. See docs/release.md.
import { spawnSync } from "node:child_process";
import type { KeyObject } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { delimiter, join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { readVersion } from "../generate/version.ts";
import { CHANGELOG, findSilentCommits } from "./changelog.ts";
import { checkOut } from "./check-out.ts";
import { git, readCommits } from "./history.ts";
import { listProblems } from "./readiness.ts";
import { ARCHITECTURES, ROOT, run, type Architecture, type Release } from "./release.ts";
import { writeSignature } from "./seal.ts";
import { parseKey } from "./signature.ts";
import { findEmulator } from "./try-image.ts";

process.umask(0o022); // The caller's umask must not hide files from other users.

const USAGE = `usage: release VERSION [OPTION...]
  --check                 only check that the version can be released
  --output DIRECTORY      receives the files, and loses all others (default: dist/release)
  --registry NAME         registry and path of the images' names (default: registry.example/patchbay)
  --url URL               folder from which users download the files (default: https://releases.example/patchbay/vVERSION)
  --architecture NAME     amd64 or arm64; may be repeated (default: both)
  --key FILE              private key that signs the checksums: PEM, P-256, not encrypted (default: no signature)
  --tag                   create the tag vVERSION at the end; pushes nothing
       release --changelog
                          only check that each commit has its line in CHANGELOG.md
`;
const NODE = [process.execPath, "--conditions=@patchbay/source"];
const CONSTANT = "packages/common/base/src/version.ts";
const PROGRAMS = ["git", "tar", "gzip", "mmdebstrap", "umoci", "gcc", "g++", "npm"];
const CROSS_PROGRAMS = ["aarch64-linux-gnu-gcc", "aarch64-linux-gnu-g++"];

function fail(message: string, code: number): never {
  process.stderr.write(message);
  process.exit(code);
}

function parse() {
  try {
    return parseArgs({
      allowPositionals: true,
      options: {
        check: { type: "boolean", default: false },
        changelog: { type: "boolean", default: false },
        output: { type: "string", default: join(ROOT, "dist/release") },
        registry: { type: "string", default: "registry.example/patchbay" },
        url: { type: "string" },
        architecture: { type: "string", multiple: true },
        key: { type: "string" },
        tag: { type: "boolean", default: false },
      },
    });
  } catch (error) {
    return fail(`release: ${String(error)}\n${USAGE}`, 2);
  }
}

/** Returns the key, or why it cannot sign. */
function readKey(path: string | undefined): KeyObject | string | undefined {
  if (path === undefined) return undefined;
  try {
    return parseKey(readFileSync(path, "utf8"));
  } catch (error) {
    return `the key ${path} cannot sign: ${error instanceof Error ? error.message : String(error)}`;
  }
}

function isInPath(program: string): boolean {
  const folders = (process.env["PATH"] ?? "").split(delimiter);
  return folders.some((folder) => existsSync(join(folder, program)));
}

function findMissingPrograms(architectures: readonly Architecture[]): readonly string[] {
  const emulators = architectures.map(findEmulator).filter((path) => path !== undefined);
  const cross = emulators.length > 0 ? CROSS_PROGRAMS : [];
  return [
    ...[...PROGRAMS, ...cross].filter((program) => !isInPath(program)),
    ...emulators.filter((path) => !existsSync(path)),
  ];
}

function findTagged(version: string): string | undefined {
  const found = git(ROOT, "for-each-ref", "--format=%(objectname)", `refs/tags/v${version}`).trim();
  return found === "" ? undefined : git(ROOT, "rev-parse", `v${version}^{commit}`).trim();
}

/** Whether git knows a name and an address of the user. */
function hasIdentity(): boolean {
  return spawnSync("git", ["var", "GIT_COMMITTER_IDENT"], { cwd: ROOT }).status === 0;
}

function listLines(text: string): readonly string[] {
  return text.split("\n").filter((line) => line !== "");
}

function report(problems: readonly string[], what: string): void {
  if (problems.length === 0) return;
  fail(`release: ${what}:\n${problems.map((problem) => `  - ${problem}\n`).join("")}`, 1);
}

const { values, positionals } = parse();
if (values.changelog) {
  report(findSilentCommits(readCommits(ROOT)), `commits lack their line in ${CHANGELOG}`);
  process.exit(0);
}
const [version = "", ...more] = positionals;
const architectures = values.architecture ?? [...ARCHITECTURES];
const isKnown = (name: string): name is Architecture => ARCHITECTURES.some((one) => one === name);
if (version === "" || more.length > 0 || !architectures.every(isKnown)) fail(USAGE, 2);

const key = readKey(values.key);
const head = git(ROOT, "rev-parse", "HEAD").trim();
report(
  listProblems({
    wanted: version,
    declared: readVersion(ROOT),
    constant: readFileSync(join(ROOT, CONSTANT), "utf8"),
    changelog: readFileSync(join(ROOT, CHANGELOG), "utf8"),
    changes: listLines(git(ROOT, "status", "--porcelain")),
    head,
    tagged: findTagged(version),
    isRoot: process.getuid?.() === 0,
    missingPrograms: findMissingPrograms(architectures),
    silentCommits: findSilentCommits(readCommits(ROOT)),
    canTag: !values.tag || hasIdentity(),
    keyProblem: typeof key === "string" ? key : undefined,
  }),
  `version ${version} cannot be released`,
);
if (!values.check) {
  const release: Release = {
    version,
    commit: head,
    architectures,
    registry: values.registry,
    url: values.url ?? `https://releases.example/patchbay/v${version}`,
    epoch: Number(git(ROOT, "log", "-1", "--format=%ct").trim()),
    output: resolve(values.output),
    work: join(ROOT, ".cache/release"),
  };
  const source = checkOut(ROOT, release);
  try {
    run([...NODE, join(source, "hack/releasing/make/main.ts"), JSON.stringify(release)]);
  } catch {
    fail("release: an artifact could not be made; the output above says why\n", 1);
  }
  if (typeof key === "object") writeSignature(release, key);
  if (values.tag && findTagged(version) === undefined) {
    git(ROOT, "tag", "--annotate", "--message", `Patchbay ${version}`, `v${version}`, head);
  }
  process.stdout.write(`release: ${release.output}\n`);
}
