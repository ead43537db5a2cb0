// SPDX-License-Identifier: Apache-2.0
// What is served, all in one answer. Source: apidiscovery.k8s.io/v2 APIGroupDiscoveryList.
import { type Kind, type Subresource } from "../kinds/kind.ts";
import type { Fields } from "../objects/json.ts";
import { groupsOf } from "./legacy.ts";

const GROUP = "apidiscovery.k8s.io";

/** The version of the format that a client asks for first; undefined where it asks for none that is known. */
export function aggregatedVersion(accept: string): "v2" | "v2beta1" | undefined {
  const entry = accept
    .split(",")
    .find((part) => part.includes("as=APIGroupDiscoveryList") && part.includes(`g=${GROUP}`));
  const version = /v=(v2|v2beta1)(?:;|$)/.exec(entry?.trim() ?? "")?.[1];
  return version === "v2" || version === "v2beta1" ? version : undefined;
}

/** Content type of an answer in that format. */
export function aggregatedContentType(version: string): string {
  return `application/json;g=${GROUP};v=${version};as=APIGroupDiscoveryList`;
}

function toSubresource(kind: Kind, subresource: Subresource): Fields {
  return {
    subresource: subresource.name,
    responseKind: {
      group: subresource.group ?? kind.group,
      version: subresource.version ?? kind.version,
      kind: subresource.kind ?? kind.kind,
    },
    verbs: subresource.verbs,
  };
}

function toResource(kind: Kind): Fields {
  const { subresources } = kind;
  return {
    resource: kind.resource,
    responseKind: { group: kind.group, version: kind.version, kind: kind.kind },
    scope: kind.namespaced ? "Namespaced" : "Cluster",
    singularResource: kind.singular,
    verbs: kind.verbs,
    ...(kind.shortNames.length === 0 ? {} : { shortNames: kind.shortNames }),
    ...(kind.categories.length === 0 ? {} : { categories: kind.categories }),
    ...(subresources.length === 0
      ? {}
      : { subresources: subresources.map((subresource) => toSubresource(kind, subresource)) }),
  };
}

function toGroup(name: string, versions: readonly string[], kinds: readonly Kind[]): Fields {
  return {
    metadata: name === "" ? {} : { name },
    versions: versions.map((version) => ({
      version,
      resources: kinds
        .filter((kind) => kind.group === name && kind.version === version)
        .map(toResource),
      freshness: "Current",
    })),
  };
}

/** The answer for `/api` (the core group) or for `/apis` (all others). */
export function toDiscoveryList(
  kinds: readonly Kind[],
  of: { readonly root: "/api" | "/apis"; readonly version: string },
): Fields {
  const groups = groupsOf(kinds.map((kind) => [kind.group, kind.version] as const));
  const items =
    of.root === "/api"
      ? [toGroup("", ["v1"], kinds)]
      : groups.map((group) => toGroup(group.name, group.versions, kinds));
  return {
    kind: "APIGroupDiscoveryList",
    apiVersion: `${GROUP}/${of.version}`,
    metadata: {},
    items,
  };
}
