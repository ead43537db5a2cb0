// SPDX-License-Identifier: Apache-2.0
// Which objects do the manifests hold? The files are those that `kubectl apply -k` takes.
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { KubeObject } from "@patchbay/api";
import { AppError } from "@patchbay/core";
import type { Files } from "@patchbay/core/ports";
import { load, loadAll } from "js-yaml";

/** The package; sources and what is built lie one folder below it. */
const ROOT = fileURLToPath(new URL("..", import.meta.url));
/** From the repository's root. No folder for kubectl lists it: `kubectl delete -k` would delete all networks with it. */
const NETWORK_DEFINITION = join(
  ROOT,
  "../../../crds/networks/k8s.cni.cncf.io_network-attachment-definitions.yaml",
);
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
  const { bases = [], resources = [] } = load(text) as {
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

/** Installations on a cluster, whose API server may lack the definition of networks. */
const FOR_CLUSTERS: readonly ManifestFolder[] = ["base", "net-agent-only"];

/**
 * The manifests of a folder and of those that it lists. Installations on a cluster also have the definition of networks, which
 * `install` creates only where it is missing.
 * @throws AppError with OS_FILE_FAILED
 */
export async function readManifests(
  files: Files,
  folder: ManifestFolder,
): Promise<readonly Manifest[]> {
  const listed = await readFolder(files, join(ROOT, folder));
  if (!FOR_CLUSTERS.includes(folder)) return listed;
  const text = await readFile(files, NETWORK_DEFINITION);
  return [...listed, { path: NETWORK_DEFINITION, text }];
}

/**
 * Parses manifests; `nodeName` takes the place of NODE_NAME. By js-yaml, which Kubernetes' client brings along: for the CRDs
 * it takes 0.3 s of a processor where yaml, which keeps comments and places as well, takes 1.05 (0.04 and 0.46 once it is warm).
 */
export function parseManifests(
  manifests: readonly Manifest[],
  nodeName = "NODE_NAME",
): readonly KubeObject[] {
  return manifests.flatMap(
    // Our own files.
    ({ text }) => loadAll(text.replaceAll(NODE_NAME, nodeName)) as readonly KubeObject[],
  );
}
