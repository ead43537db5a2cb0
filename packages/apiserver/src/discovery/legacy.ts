// SPDX-License-Identifier: Apache-2.0
// What is served, in the form of `/api`, `/apis` and `/apis/<group>/<version>`. Source: metav1.APIGroupList, APIResourceList.
import type { Priority } from "../aggregation/priorities.ts";
import type { Kind } from "../kinds/kind.ts";
import { type Fields, without } from "../objects/json.ts";

/** A group and its versions, the preferred one first. */
export interface ServedGroup {
  readonly name: string;
  readonly versions: readonly string[];
}

const VERSION = /^v(\d+)(?:(alpha|beta)(\d+))?$/;

function rankOf(version: string): readonly number[] {
  const match = VERSION.exec(version);
  if (match === null) {
    return [3, 0, 0];
  }
  const [, major = "0", stage, minor = "0"] = match;
  const stages: Readonly<Record<string, number>> = { beta: 1, alpha: 2 };
  return [stage === undefined ? 0 : (stages[stage] ?? 2), -Number(major), -Number(minor)];
}

/** Orders versions as Kubernetes does: v10, v2, v1, v1beta2, v1alpha1, others by name. */
export function compareVersions(left: string, right: string): number {
  const [a, b] = [rankOf(left), rankOf(right)];
  const at = a.findIndex((rank, index) => rank !== b[index]);
  return at < 0 ? left.localeCompare(right) : (a[at] ?? 0) - (b[at] ?? 0);
}

/** The group of APIServices has none itself, and comes first. */
const FIRST = "apiregistration.k8s.io";

/** The highest that any version of a group asks for. */
function rankOfGroup(
  group: string,
  versions: readonly string[],
  priorityOf: (group: string, version: string) => Priority,
): number {
  return group === FIRST
    ? Number.MAX_SAFE_INTEGER
    : Math.max(...versions.map((version) => priorityOf(group, version).group));
}

/** Groups of kinds and of aggregated services, by their priorities, then by name; the core group is left out. */
export function groupsOf(
  groupVersions: Iterable<readonly [string, string]>,
  priorityOf: (group: string, version: string) => Priority,
): readonly ServedGroup[] {
  const groups = new Map<string, Set<string>>();
  for (const [group, version] of groupVersions) {
    const versions = groups.get(group) ?? new Set<string>();
    versions.add(version);
    groups.set(group, versions);
  }
  return [...groups]
    .filter(([name]) => name !== "")
    .map(([name, versions]) => ({
      name,
      rank: rankOfGroup(name, [...versions], priorityOf),
      versions: [...versions].sort(
        (left, right) =>
          priorityOf(name, right).version - priorityOf(name, left).version ||
          compareVersions(left, right),
      ),
    }))
    .sort((left, right) => right.rank - left.rank || (left.name < right.name ? -1 : 1))
    .map(({ name, versions }) => ({ name, versions }));
}

/** `/apis/<group>`. */
export function toApiGroup(group: ServedGroup): Fields {
  const versions = group.versions.map((version) => ({
    groupVersion: `${group.name}/${version}`,
    version,
  }));
  return {
    kind: "APIGroup",
    apiVersion: "v1",
    name: group.name,
    versions,
    preferredVersion: versions[0],
  };
}

/** `/apis`. */
export function toApiGroupList(groups: readonly ServedGroup[]): Fields {
  const items = groups.map((group) => without(toApiGroup(group), "kind", "apiVersion"));
  return { kind: "APIGroupList", apiVersion: "v1", groups: items };
}

/** `/api`. */
export function toApiVersions(serverAddress: string): Fields {
  return {
    kind: "APIVersions",
    versions: ["v1"],
    serverAddressByClientCIDRs: [{ clientCIDR: "0.0.0.0/0", serverAddress }],
  };
}

function toResources(kind: Kind): Fields[] {
  const resource = {
    name: kind.resource,
    singularName: kind.singular,
    namespaced: kind.namespaced,
    kind: kind.kind,
    verbs: kind.verbs,
    ...(kind.shortNames.length === 0 ? {} : { shortNames: kind.shortNames }),
    ...(kind.categories.length === 0 ? {} : { categories: kind.categories }),
  };
  const subresources = kind.subresources.map((subresource) => ({
    name: `${kind.resource}/${subresource.name}`,
    singularName: "",
    namespaced: kind.namespaced,
    ...(subresource.group === undefined
      ? {}
      : { group: subresource.group, version: subresource.version }),
    kind: subresource.kind ?? kind.kind,
    verbs: subresource.verbs,
  }));
  return [resource, ...subresources];
}

/** `/apis/<group>/<version>`. */
export function toApiResourceList(groupVersion: string, kinds: readonly Kind[]): Fields {
  return {
    kind: "APIResourceList",
    apiVersion: "v1",
    groupVersion,
    resources: kinds.flatMap(toResources),
  };
}
