// SPDX-License-Identifier: Apache-2.0
// Builds images and reads their archives.
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

export const ROOT = resolve(import.meta.dirname, "../../..");
export const IMAGES = join(ROOT, "hack/images");
/** Directory of images that need no rebuild. */
export const CACHE = join(ROOT, ".cache/images");

interface CommandResult {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export function attempt(argv: readonly string[], env: NodeJS.ProcessEnv = {}): CommandResult {
  const [program = "", ...args] = argv;
  const options = { encoding: "utf8", env: { ...process.env, ...env } } as const;
  return spawnSync(program, args, { ...options, maxBuffer: 1 << 28 });
}

/** The output of a successful program. */
export function run(argv: readonly string[], env: NodeJS.ProcessEnv = {}): string {
  const { status, stdout, stderr } = attempt(argv, env);
  if (status !== 0) throw new Error(`${argv.join(" ")} ended with ${String(status)}: ${stderr}`);
  return stdout;
}

/** Builds images in a directory; returns the output. */
export function makeImages(directory: string, ...names: readonly string[]): string {
  const { status, stderr } = attempt([join(IMAGES, "make-images"), ...names], {
    PATCHBAY_IMAGES_DIR: directory,
  });
  if (status !== 0) throw new Error(stderr);
  return stderr;
}

/** The description beside an archive. */
export interface Description {
  readonly reference: string;
  readonly digest: string;
  readonly bytes: number;
}

function readJson(text: string): unknown {
  return JSON.parse(text);
}

export function describeImage(directory: string, name: string): Description {
  return readJson(readFileSync(join(directory, `${name}.json`), "utf8")) as Description;
}

/** The used part of an image's configuration. Source: OCI image-spec, config.md. */
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

/** Index, manifest and configuration of a single-image archive. */
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
