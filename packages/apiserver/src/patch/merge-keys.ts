// SPDX-License-Identifier: Apache-2.0
// Which lists of built-in kinds are merged by key, and by which. Source: Kubernetes patchMergeKey tags.

/** How a list is merged: by a key of its items, or as a set of values. */
export type ListMerge = { readonly by: string } | "set";

/** By the name of the list's field, and below `parent/name` where one name means several things. */
const LISTS: Readonly<Record<string, ListMerge>> = {
  finalizers: "set",
  ownerReferences: { by: "uid" },
  containers: { by: "name" },
  initContainers: { by: "name" },
  ephemeralContainers: { by: "name" },
  volumes: { by: "name" },
  env: { by: "name" },
  volumeMounts: { by: "mountPath" },
  volumeDevices: { by: "devicePath" },
  imagePullSecrets: { by: "name" },
  hostAliases: { by: "ip" },
  topologySpreadConstraints: { by: "topologyKey" },
  schedulingGates: { by: "name" },
  conditions: { by: "type" },
  podIPs: { by: "ip" },
  hostIPs: { by: "ip" },
  addresses: { by: "type" },
  secrets: { by: "name" },
  webhooks: { by: "name" },
  "containers/ports": { by: "containerPort" },
  "initContainers/ports": { by: "containerPort" },
  "spec/ports": { by: "port" },
};

/** Lists that have a merge key elsewhere but are replaced here: endpoints' subsets. */
const REPLACED: ReadonlySet<string> = new Set(["subsets/addresses", "subsets/ports"]);

/** How the list `field` is merged, where `parent` is the field that holds it; undefined: it is replaced. */
export function listMergeOf(parent: string, field: string): ListMerge | undefined {
  const qualified = `${parent}/${field}`;
  return REPLACED.has(qualified) ? undefined : (LISTS[qualified] ?? LISTS[field]);
}
