// SPDX-License-Identifier: Apache-2.0
// A release's settings, and helpers that its artifacts share.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";

export const ROOT: string = join(import.meta.dirname, "../..");
/** Names of Debian. Go, OCI and Krew use the same ones. */
export const ARCHITECTURES = ["amd64", "arm64"] as const;
export type Architecture = (typeof ARCHITECTURES)[number];

export interface Release {
  readonly version: string;
  readonly commit: string;
  readonly architectures: readonly Architecture[];
  /** Registry and path before the images' names. */
  readonly registry: string;
  /** URL of the folder from which users download the files. */
  readonly url: string;
  /** Time of the commit in seconds since 1970, for all files. */
  readonly epoch: number;
  /** Receives the artifacts, and nothing else. */
  readonly output: string;
  /** Intermediate files, which the next release uses again. */
  readonly work: string;
}

/** Adds files to the release's output. */
export interface Artifact {
  readonly name: string;
  readonly make: (release: Release) => Promise<void> | void;
}

/** Environment of programs whose output must not depend on the time, the language or the time zone. */
export function buildEnvironment({ epoch }: Pick<Release, "epoch">): NodeJS.ProcessEnv {
  const SOURCE_DATE_EPOCH = String(epoch);
  return { ...process.env, SOURCE_DATE_EPOCH, LC_ALL: "C", TZ: "UTC" };
}

/** Runs a program whose output belongs to the release's log. @throws if it fails */
export function run(argv: readonly string[], env: NodeJS.ProcessEnv = process.env): void {
  const [program = "", ...args] = argv;
  execFileSync(program, args, { cwd: ROOT, env, stdio: ["ignore", 2, 2] });
}

/** Returns the output of a program. @throws if it fails */
export function read(argv: readonly string[], env: NodeJS.ProcessEnv = process.env): string {
  const [program = "", ...args] = argv;
  return execFileSync(program, args, { cwd: ROOT, env, encoding: "utf8", maxBuffer: 1 << 28 });
}

/** Creates an empty directory in place of what exists there. */
export function emptyDirectory(path: string): string {
  rmSync(path, { recursive: true, force: true });
  mkdirSync(path, { recursive: true });
  return path;
}

export function sha256(content: string | Buffer): string {
  return createHash("sha256").update(content).digest("hex");
}

export function sha256OfFile(path: string): string {
  return sha256(readFileSync(path));
}

interface Packed {
  readonly from: string;
  readonly to: string;
  /** Names in `from`, packed in this order. */
  readonly names: readonly string[];
}

/** Packs a directory so that equal files give equal bytes. Compresses a file named `.gz`. */
export function pack({ epoch }: Pick<Release, "epoch">, { from, to, names }: Packed): void {
  const compression = to.endsWith(".gz") ? ["--use-compress-program=gzip -n -9"] : [];
  const same = ["--sort=name", "--numeric-owner", "--owner=0", "--group=0", "--mode=u=rwX,go=rX"];
  const time = `--mtime=@${String(epoch)}`;
  run(["tar", "-C", from, ...same, time, "--format=gnu", ...compression, "-cf", to, ...names]);
}
