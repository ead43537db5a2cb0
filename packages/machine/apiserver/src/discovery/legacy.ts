// SPDX-License-Identifier: Apache-2.0
// Source: metav1.APIGroupList, APIResourceList.
import type { Kind } from "../kinds/kind.ts";
import { type Fields, without } from "../objects/json.ts";
import type { ServedGroup } from "./served-groups.ts";

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
