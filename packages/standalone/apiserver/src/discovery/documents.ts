// SPDX-License-Identifier: Apache-2.0
// Discovery documents: legacy (metav1.APIGroupList, APIResourceList) and aggregated (apidiscovery.k8s.io/v2).
import type { RemoteVersion } from "../aggregation/remote-discovery.ts";
import type { Kind, Subresource } from "../kinds/kind.ts";
import { type Fields, asList, textAt, valueAt, without } from "../objects/json.ts";
import type { ServedGroup } from "./served-groups.ts";

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

export function toApiGroupList(groups: readonly ServedGroup[]): Fields {
  const items = groups.map((group) => without(toApiGroup(group), "kind", "apiVersion"));
  return { kind: "APIGroupList", apiVersion: "v1", groups: items };
}

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

export function toApiResourceList(groupVersion: string, kinds: readonly Kind[]): Fields {
  return {
    kind: "APIResourceList",
    apiVersion: "v1",
    groupVersion,
    resources: kinds.flatMap(toResources),
  };
}

function responseKind(resource: unknown, group: string, version: string): Fields {
  return {
    group: textAt(resource, "group") || group,
    version: textAt(resource, "version") || version,
    kind: textAt(resource, "kind"),
  };
}

function printScope(resource: unknown): string {
  return valueAt(resource, "namespaced") === true ? "Namespaced" : "Cluster";
}

function pickDefined(resource: unknown, ...keys: readonly string[]): Fields {
  const entries = keys.map((key) => [key, valueAt(resource, key)] as const);
  return Object.fromEntries(entries.filter(([, value]) => value !== undefined));
}

function toRemoteResource(resource: unknown, group: string, version: string): Fields {
  return {
    resource: textAt(resource, "name"),
    responseKind: responseKind(resource, group, version),
    scope: printScope(resource),
    singularResource: textAt(resource, "singularName"),
    verbs: valueAt(resource, "verbs") ?? [],
    ...pickDefined(resource, "shortNames", "categories"),
  };
}

/** Converts an APIResourceList to aggregated discovery's format. If the list lacks a subresource's parent, adds a parent without verbs. */
export function toRemoteResources(list: unknown, group: string, version: string): Fields[] {
  const resources = asList(valueAt(list, "resources"));
  const isSubresource = (resource: unknown) => textAt(resource, "name").includes("/");
  const byName = new Map<string, Fields>(
    resources
      .filter((resource) => !isSubresource(resource))
      .map((resource) => [textAt(resource, "name"), toRemoteResource(resource, group, version)]),
  );
  for (const resource of resources.filter(isSubresource)) {
    const [parent = "", ...rest] = textAt(resource, "name").split("/");
    const owner = byName.get(parent) ?? {
      resource: parent,
      responseKind: {},
      scope: printScope(resource),
      singularResource: "",
      verbs: [],
    };
    const subresource = {
      subresource: rest.join("/"),
      responseKind: responseKind(resource, group, version),
      verbs: valueAt(resource, "verbs") ?? [],
    };
    owner["subresources"] = [...asList(owner["subresources"]), subresource];
    byName.set(parent, owner);
  }
  return [...byName.values()];
}

const GROUP = "apidiscovery.k8s.io";

export function aggregatedVersion(accept: string): "v2" | "v2beta1" | undefined {
  const entry = accept
    .split(",")
    .find(
      (mediaType) =>
        mediaType.includes("as=APIGroupDiscoveryList") && mediaType.includes(`g=${GROUP}`),
    );
  const version = /v=(v2|v2beta1)(?:;|$)/.exec(entry?.trim() ?? "")?.[1];
  return version === "v2" || version === "v2beta1" ? version : undefined;
}

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

interface ServedVersions {
  readonly kinds: readonly Kind[];
  /** Groups in order of priority, without the core group. */
  readonly groups: readonly ServedGroup[];
  /** Group versions of extension API servers, which take precedence over kinds of this server. */
  readonly remote: readonly RemoteVersion[];
}

function toVersion(servedVersions: ServedVersions, group: string, version: string): Fields {
  const remoteVersion = servedVersions.remote.find(
    (candidate) => candidate.group === group && candidate.version === version,
  );
  if (remoteVersion === undefined) {
    const kinds = servedVersions.kinds.filter(
      (kind) => kind.group === group && kind.version === version,
    );
    return { version, resources: kinds.map(toResource), freshness: "Current" };
  }
  return {
    version,
    resources: toRemoteResources(remoteVersion.documents?.resources, group, version),
    freshness:
      remoteVersion.isAvailable && remoteVersion.documents !== undefined ? "Current" : "Stale",
  };
}

function toGroup(servedVersions: ServedVersions, { name, versions }: ServedGroup): Fields {
  return {
    metadata: name === "" ? {} : { name },
    versions: versions.map((version) => toVersion(servedVersions, name, version)),
  };
}

/** Builds the response to `/api` (the core group) or `/apis` (all other groups). */
export function toDiscoveryList(
  servedVersions: ServedVersions,
  options: { readonly root: "/api" | "/apis"; readonly version: string },
): Fields {
  const groups = options.root === "/api" ? [{ name: "", versions: ["v1"] }] : servedVersions.groups;
  return {
    kind: "APIGroupDiscoveryList",
    apiVersion: `${GROUP}/${options.version}`,
    metadata: {},
    items: groups.map((group) => toGroup(servedVersions, group)),
  };
}
