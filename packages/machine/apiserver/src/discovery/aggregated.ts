// SPDX-License-Identifier: Apache-2.0
// What is served, all in one answer. Source: apidiscovery.k8s.io/v2 APIGroupDiscoveryList.
import { type Kind, type Subresource } from "../kinds/kind.ts";
import type { Fields } from "../objects/json.ts";
import type { RemoteVersion } from "../aggregation/remote-discovery.ts";
import type { ServedGroup } from "./served-groups.ts";
import { toRemoteResources } from "./remote-resources.ts";

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

/** What is served. */
export interface Served {
  readonly kinds: readonly Kind[];
  /** Groups beside the core group, in their order. */
  readonly groups: readonly ServedGroup[];
  /** What other servers have: they win over kinds of the same version. */
  readonly remote: readonly RemoteVersion[];
}

function toVersion(served: Served, group: string, version: string): Fields {
  const remote = served.remote.find((one) => one.group === group && one.version === version);
  if (remote === undefined) {
    const kinds = served.kinds.filter((kind) => kind.group === group && kind.version === version);
    return { version, resources: kinds.map(toResource), freshness: "Current" };
  }
  return {
    version,
    resources: toRemoteResources(remote.documents?.resources, group, version),
    freshness: remote.isAvailable && remote.documents !== undefined ? "Current" : "Stale",
  };
}

function toGroup(served: Served, { name, versions }: ServedGroup): Fields {
  return {
    metadata: name === "" ? {} : { name },
    versions: versions.map((version) => toVersion(served, name, version)),
  };
}

/** The answer for `/api` (the core group) or for `/apis` (all others). */
export function toDiscoveryList(
  served: Served,
  of: { readonly root: "/api" | "/apis"; readonly version: string },
): Fields {
  const groups = of.root === "/api" ? [{ name: "", versions: ["v1"] }] : served.groups;
  return {
    kind: "APIGroupDiscoveryList",
    apiVersion: `${GROUP}/${of.version}`,
    metadata: {},
    items: groups.map((group) => toGroup(served, group)),
  };
}
