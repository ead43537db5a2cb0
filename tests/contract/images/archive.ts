// SPDX-License-Identifier: Apache-2.0
// Makes images, and looks into their archives.
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

export const ROOT = resolve(import.meta.dirname, "../../..");
export const IMAGES = join(ROOT, "hack/images");
/** Where images lie that need not be made again. */
export const CACHE = join(ROOT, ".cache/images");

interface CommandResult {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a program to its end. */
export function attempt(argv: readonly string[], env: NodeJS.ProcessEnv = {}): CommandResult {
  const [program = "", ...args] = argv;
  const options = { encoding: "utf8", env: { ...process.env, ...env } } as const;
  return spawnSync(program, args, { ...options, maxBuffer: 1 << 28 });
}

/** What a program printed that ended well. */
export function run(argv: readonly string[], env: NodeJS.ProcessEnv = {}): string {
  const { status, stdout, stderr } = attempt(argv, env);
  if (status !== 0) throw new Error(`${argv.join(" ")} ended with ${String(status)}: ${stderr}`);
  return stdout;
}

/** Makes images in a directory; returns what was said of it. */
export function makeImages(directory: string, ...names: readonly string[]): string {
  const { status, stderr } = attempt([join(IMAGES, "make-images"), ...names], {
    PATCHBAY_IMAGES_DIR: directory,
  });
  if (status !== 0) throw new Error(stderr);
  return stderr;
}

/** What is written beside an archive. */
export interface Description {
  readonly reference: string;
  readonly digest: string;
  readonly bytes: number;
}

function readJson(text: string): unknown {
  return JSON.parse(text);
}

/** Of an image in that directory. */
export function describeImage(directory: string, name: string): Description {
  return readJson(readFileSync(join(directory, `${name}.json`), "utf8")) as Description;
}

/** An image's configuration, as far as it is looked at. Source: OCI image-spec, config.md. */
export interface ImageConfig {
  readonly created: string;
  readonly config: {
    readonly User: string;
    readonly Entrypoint?: readonly string[];
    readonly Env?: readonly string[];
  };
}

interface Blob {
  readonly digest: string;
}

function readBlob(archive: string, { digest }: Blob): string {
  return run(["tar", "-xOf", archive, `blobs/${digest.replace(":", "/")}`]);
}

/** Index, manifest and configuration of an archive of one image. */
export function readArchive(archive: string) {
  const index = readJson(run(["tar", "-xOf", archive, "index.json"])) as {
    readonly manifests: readonly (Blob & { readonly annotations: Record<string, string> })[];
  };
  const [entry] = index.manifests;
  if (entry === undefined || index.manifests.length !== 1) throw new Error("not one image");
  const manifest = readJson(readBlob(archive, entry)) as { config: Blob; layers: Blob[] };
  const config = readJson(readBlob(archive, manifest.config)) as ImageConfig;
  return { entry, manifest, config };
}

/** Unpacks the layers of an archive; returns the directory. The caller removes it. */
export function unpackRoot(archive: string): string {
  const directory = mkdtempSync(join(tmpdir(), "image-root-"));
  const blobs = join(directory, "layout");
  const root = join(directory, "root");
  mkdirSync(blobs);
  mkdirSync(root);
  run(["tar", "-xf", archive, "-C", blobs]);
  for (const { digest } of readArchive(archive).manifest.layers) {
    run(["tar", "-xf", join(blobs, "blobs", digest.replace(":", "/")), "-C", root]);
  }
  run(["rm", "-rf", blobs]);
  return root;
}
