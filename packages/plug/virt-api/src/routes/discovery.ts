// SPDX-License-Identifier: Apache-2.0
// What this API offers, as clients ask for it. Source: Kubernetes API concepts, "API discovery".
import { names } from "@patchbay/api";
import {
  IN_NAMESPACE,
  KINDS,
  SERVED,
  VERSIONS,
  type Entry,
  type Method,
  type Resource,
} from "./table.ts";

const AGGREGATED_GROUP = "apidiscovery.k8s.io";

const VERBS: Readonly<Record<Method, string>> = { get: "get", put: "update" };

function groupVersionOf(version: string): { groupVersion: string; version: string } {
  return { groupVersion: `${names.SUBRESOURCES_GROUP}/${version}`, version };
}

const GROUP = {
  name: names.SUBRESOURCES_GROUP,
  versions: VERSIONS.map(groupVersionOf),
  preferredVersion: groupVersionOf(VERSIONS[0]),
};

/** One line of the list; what is refused is no offer. */
interface Offer {
  readonly resource: Resource;
  readonly subresource: string;
  readonly verb: string;
}

/** A subresource is one, with whatever parameters its paths go on. */
function offersOf(resource: Resource): readonly Offer[] {
  const verbs = new Map(
    Object.entries<Entry>(SERVED[resource]).map(([path, { method }]) => [
      path.replace(/\/\{.*$/, ""),
      VERBS[method],
    ]),
  );
  return [...verbs].map(([subresource, verb]) => ({ resource, subresource, verb }));
}

const OFFERS: readonly Offer[] = (Object.keys(KINDS) as readonly Resource[]).flatMap(offersOf);

const NAMESPACED = Object.entries(IN_NAMESPACE).map(([name, { method }]) => ({
  name,
  verbs: [VERBS[method]],
}));

/** `/apis` */
export const GROUP_LIST: object = { kind: "APIGroupList", apiVersion: "v1", groups: [GROUP] };
/** `/apis/subresources.kubevirt.io` */
export const API_GROUP: object = { kind: "APIGroup", apiVersion: "v1", ...GROUP };

/** `/apis/subresources.kubevirt.io/VERSION` */
export function resourceListOf(version: string): object {
  const subresources = OFFERS.map(({ resource, subresource, verb }) => ({
    name: `${resource}/${subresource}`,
    singularName: "",
    namespaced: true,
    kind: KINDS[resource],
    verbs: [verb],
  }));
  const others = NAMESPACED.map((each) => ({
    ...each,
    singularName: "",
    namespaced: true,
    kind: KINDS.virtualmachines,
  }));
  return {
    kind: "APIResourceList",
    apiVersion: "v1",
    groupVersion: groupVersionOf(version).groupVersion,
    resources: [...subresources, ...others],
  };
}

function aggregatedResource(resource: string, verbs: readonly string[], kind: object): object {
  return { resource, responseKind: kind, scope: "Namespaced", singularResource: "", verbs };
}

function aggregatedVersionOf(version: string): object {
  const kindOf = (resource: Resource) => ({
    group: names.SUBRESOURCES_GROUP,
    version,
    kind: KINDS[resource],
  });
  // A resource that is not here itself, only what is below it. Source: Kubernetes apiserver aggregated discovery.
  const owners = (Object.keys(KINDS) as readonly Resource[]).map((owner) => ({
    ...aggregatedResource(owner, [], {}),
    subresources: OFFERS.filter(({ resource }) => resource === owner).map(
      ({ subresource, verb }) => ({ subresource, responseKind: kindOf(owner), verbs: [verb] }),
    ),
  }));
  const others = NAMESPACED.map(({ name, verbs }) =>
    aggregatedResource(name, verbs, kindOf("virtualmachines")),
  );
  return { version, resources: [...owners, ...others], freshness: "Current" };
}

/** Everything in one answer, and its media type. */
export interface AggregatedDiscovery {
  readonly contentType: string;
  readonly body: object;
}

/** `/apis` for who asks for all at once; undefined: they do not. Source: apidiscovery.k8s.io APIGroupDiscoveryList. */
export function aggregatedFor(accept: string): AggregatedDiscovery | undefined {
  const asked = accept
    .split(",")
    .map((type) => type.split(";").map((part) => part.trim()))
    .find((parts) => parts.includes(`g=${AGGREGATED_GROUP}`));
  const format = ["v2", "v2beta1"].find((version) => asked?.includes(`v=${version}`) === true);
  if (format === undefined || asked?.includes("as=APIGroupDiscoveryList") !== true)
    return undefined;
  const group = {
    metadata: { name: names.SUBRESOURCES_GROUP },
    versions: VERSIONS.map(aggregatedVersionOf),
  };
  return {
    contentType: `application/json;g=${AGGREGATED_GROUP};v=${format};as=APIGroupDiscoveryList`,
    body: {
      kind: "APIGroupDiscoveryList",
      apiVersion: `${AGGREGATED_GROUP}/${format}`,
      metadata: {},
      items: [group],
    },
  };
}
