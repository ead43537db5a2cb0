// SPDX-License-Identifier: Apache-2.0
// Which objects do the manifests hold? The files are those that `kubectl apply -k` takes.
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { KubeObject } from "@patchbay/api";
import { AppError } from "@patchbay/core";
import type { Files } from "@patchbay/core/ports";
import { parse, parseAllDocuments } from "yaml";

/** The package; sources and what is built lie one folder below it. */
const ROOT = fileURLToPath(new URL("..", import.meta.url));
const NODE_NAME = /\bNODE_NAME\b/g;

/** One manifest as it is written. */
export interface Manifest {
  /** Absolute. */
  readonly path: string;
  readonly text: string;
}

async function readFile(files: Files, path: string): Promise<string> {
  const text = await files.readText(path);
  if (text !== undefined) return text;
  throw new AppError("OS_FILE_FAILED", { call: "read", path, reason: "it does not exist" });
}

/** The manifests that a folder's kustomization.yaml lists, in its order: those of its bases first. */
async function readFolder(files: Files, folder: string): Promise<readonly Manifest[]> {
  const text = await readFile(files, join(folder, "kustomization.yaml"));
  // Our own file.
  const { bases = [], resources = [] } = parse(text) as {
    readonly bases?: readonly string[];
    readonly resources?: readonly string[];
  };
  const inherited = await Promise.all(bases.map((base) => readFolder(files, join(folder, base))));
  const read = async (name: string): Promise<Manifest> => {
    const path = join(folder, name);
    return { path, text: await readFile(files, path) };
  };
  return [...inherited.flat(), ...(await Promise.all(resources.map(read)))];
}

/**
 * Accounts and roles (`rights`), with what a cluster has beside them (`base`) or a standalone machine (`standalone`); what
 * a cluster has whose VMs are KubeVirt's (`net-agent-only`).
 */
export type ManifestFolder = "rights" | "base" | "net-agent-only" | "standalone";

/**
 * The manifests of a folder and of those that it lists.
 * @throws AppError with OS_FILE_FAILED
 */
export function readManifests(files: Files, folder: ManifestFolder): Promise<readonly Manifest[]> {
  return readFolder(files, join(ROOT, folder));
}

/** Parses manifests; `nodeName` takes the place of NODE_NAME. */
export function parseManifests(
  manifests: readonly Manifest[],
  nodeName = "NODE_NAME",
): readonly KubeObject[] {
  return manifests.flatMap(({ text }) =>
    // Our own files.
    parseAllDocuments(text.replaceAll(NODE_NAME, nodeName)).map((one) => one.toJS() as KubeObject),
  );
}
