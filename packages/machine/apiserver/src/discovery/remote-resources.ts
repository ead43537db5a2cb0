// SPDX-License-Identifier: Apache-2.0
// Resources of another server, from its own list to the form of discovery in one piece. Source: apidiscovery.k8s.io.
import { type Fields, listOf, textAt, valueAt } from "../objects/json.ts";

function responseKind(resource: unknown, group: string, version: string): Fields {
  return {
    group: textAt(resource, "group") || group,
    version: textAt(resource, "version") || version,
    kind: textAt(resource, "kind"),
  };
}

function scopeOf(resource: unknown): string {
  return valueAt(resource, "namespaced") === true ? "Namespaced" : "Cluster";
}

function optional(resource: unknown, ...keys: readonly string[]): Fields {
  const given = keys.map((key) => [key, valueAt(resource, key)] as const);
  return Object.fromEntries(given.filter(([, value]) => value !== undefined));
}

function toResource(resource: unknown, group: string, version: string): Fields {
  return {
    resource: textAt(resource, "name"),
    responseKind: responseKind(resource, group, version),
    scope: scopeOf(resource),
    singularResource: textAt(resource, "singularName"),
    verbs: valueAt(resource, "verbs") ?? [],
    ...optional(resource, "shortNames", "categories"),
  };
}

/** The resources of a metav1.APIResourceList. A subresource whose resource is not listed gets one that can do nothing. */
export function toRemoteResources(list: unknown, group: string, version: string): Fields[] {
  const resources = listOf(valueAt(list, "resources"));
  const isSubresource = (resource: unknown) => textAt(resource, "name").includes("/");
  const byName = new Map<string, Fields>(
    resources
      .filter((resource) => !isSubresource(resource))
      .map((resource) => [textAt(resource, "name"), toResource(resource, group, version)]),
  );
  for (const resource of resources.filter(isSubresource)) {
    const [parent = "", ...rest] = textAt(resource, "name").split("/");
    const owner = byName.get(parent) ?? {
      resource: parent,
      responseKind: {},
      scope: scopeOf(resource),
      singularResource: "",
      verbs: [],
    };
    const subresource = {
      subresource: rest.join("/"),
      responseKind: responseKind(resource, group, version),
      verbs: valueAt(resource, "verbs") ?? [],
    };
    owner["subresources"] = [...listOf(owner["subresources"]), subresource];
    byName.set(parent, owner);
  }
  return [...byName.values()];
}
