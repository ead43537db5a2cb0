// SPDX-License-Identifier: Apache-2.0
// Reads and parses manifests. `kubectl apply -k` accepts the same files.
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { ResourceType } from "@patchbay/api";
import type { KubeObject } from "@patchbay/api/kubernetes";
import { AppError, isAppError } from "@patchbay/base";
import type { Files, Store } from "@patchbay/core/interfaces";
import { parseAllDocuments } from "yaml";
import { findType } from "./types.ts";

/** Directory of the package. Both the source and the compiled form of this file are in its subdirectories. */
const ROOT = fileURLToPath(new URL("..", import.meta.url));
/** Folder of Patchbay's CRDs. Other folders' kustomizations omit them, because `kubectl delete -k` would delete them and all VMs. */
const DEFINITIONS = join(ROOT, "../../../crds");
/** Path of the NetworkAttachmentDefinition CRD. No kustomization lists it, because `kubectl delete -k` would delete all networks. */
const NETWORK_DEFINITION = join(
  DEFINITIONS,
  "networks/k8s.cni.cncf.io_network-attachment-definitions.yaml",
);
const NODE_NAME = /\bNODE_NAME\b/g;

export interface Manifest {
  readonly path: string;
  readonly text: string;
}

async function readFile(files: Files, path: string): Promise<string> {
  const text = await files.readText(path);
  if (text !== undefined) return text;
  throw new AppError("OS_FILE_FAILED", { call: "read", path, reason: "it does not exist" });
}

/** @throws AppError with API_MALFORMED, also for duplicate keys and unknown tags */
function parseDocuments({ path, text }: Manifest): readonly unknown[] {
  return parseAllDocuments(text).map((document) => {
    const [fault] = [...document.errors, ...document.warnings];
    if (fault === undefined) return document.toJS() as unknown;
    const reason = fault.message.trimEnd();
    throw new AppError("API_MALFORMED", { what: `manifest ${path}`, reason }, { cause: fault });
  });
}

/** Reads the manifests of a folder's kustomization.yaml. The manifests of its bases come first. */
async function readFolder(files: Files, folder: string): Promise<readonly Manifest[]> {
  const list = join(folder, "kustomization.yaml");
  const [kustomization] = parseDocuments({ path: list, text: await readFile(files, list) });
  // The cast is safe, because the file is part of this package, not user input.
  const { bases = [], resources = [] } = kustomization as {
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
 * `rights` contains accounts and roles. `base` contains everything for a cluster, and `standalone` everything for a
 * standalone machine, both without CRDs. `net-agent-only` is for a cluster whose VMs belong to KubeVirt, `multi-network-policies` for a
 * cluster on which Patchbay applies MultiNetworkPolicies.
 */
export type ManifestFolder =
  | "rights"
  | "base"
  | "net-agent-only"
  | "multi-network-policies"
  | "standalone";

/** Folders for installations on a cluster, whose API server may lack the NetworkAttachmentDefinition CRD. */
const FOR_CLUSTERS: readonly ManifestFolder[] = ["base", "net-agent-only"];

/** Reads the manifests of a folder. For an installation on a cluster, adds the CRDs. @throws AppError with OS_FILE_FAILED */
export async function readManifests(
  files: Files,
  folder: ManifestFolder,
): Promise<readonly Manifest[]> {
  const listed = await readFolder(files, join(ROOT, folder));
  if (!FOR_CLUSTERS.includes(folder)) return listed;
  const own = folder === "base" ? await readFolder(files, DEFINITIONS) : [];
  const text = await readFile(files, NETWORK_DEFINITION);
  return [...own, ...listed, { path: NETWORK_DEFINITION, text }];
}

/** Parses the manifests. Replaces NODE_NAME with `nodeName`. @throws AppError with API_MALFORMED */
export function parseManifests(
  manifests: readonly Manifest[],
  nodeName = "NODE_NAME",
): readonly KubeObject[] {
  return manifests.flatMap(
    ({ path, text }) =>
      // The cast is safe, because the files are part of this package, not user input.
      parseDocuments({ path, text: text.replaceAll(NODE_NAME, nodeName) }) as KubeObject[],
  );
}

const IDENTITY: readonly string[] = ["apiVersion", "kind", "metadata"];

/** Creates the object, or merges its labels and all fields except metadata into the existing object. @throws AppError if a request fails */
export async function applyObject(
  store: Store,
  type: ResourceType<KubeObject>,
  object: KubeObject,
): Promise<void> {
  try {
    await store.create(type, object);
  } catch (error) {
    if (!isAppError(error, "KUBE_ALREADY_EXISTS")) throw error;
    const { labels } = object.metadata;
    const own = Object.entries(object).filter(([name]) => !IDENTITY.includes(name));
    const fields = {
      ...Object.fromEntries(own),
      ...(labels === undefined ? {} : { metadata: { labels } }),
    };
    await store.patch(type, object.metadata, { type: "merge", fields });
  }
}

/** Applies objects in order. @throws AppError with API_MALFORMED for an unknown kind, or with the code of a failed request */
export async function applyManifests(store: Store, objects: readonly KubeObject[]): Promise<void> {
  for (const object of objects) await applyObject(store, findType(object), object);
}
