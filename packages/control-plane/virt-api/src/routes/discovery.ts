// SPDX-License-Identifier: Apache-2.0
// Discovery and OpenAPI documents, built from the table of routes. Source: Kubernetes API concepts, "API discovery".
import { names } from "@patchbay/api";
import {
  NAMESPACE_ROUTES,
  KINDS,
  SERVED_ROUTES,
  VERSIONS,
  type Entry,
  type Method,
  type Resource,
  ROUTES,
  type Route,
} from "./table.ts";
import { createHash } from "node:crypto";

const AGGREGATED_GROUP = "apidiscovery.k8s.io";

const VERBS: Readonly<Record<Method, string>> = { get: "get", put: "update" };

function toGroupVersion(version: string): { groupVersion: string; version: string } {
  return { groupVersion: `${names.SUBRESOURCES_GROUP}/${version}`, version };
}

const GROUP = {
  name: names.SUBRESOURCES_GROUP,
  versions: VERSIONS.map(toGroupVersion),
  preferredVersion: toGroupVersion(VERSIONS[0]),
};

interface ServedSubresource {
  readonly resource: Resource;
  readonly subresource: string;
  readonly verb: string;
}

function listSubresources(resource: Resource): readonly ServedSubresource[] {
  const verbs = new Map(
    Object.entries<Entry>(SERVED_ROUTES[resource]).map(([path, { method }]) => [
      path.replace(/\/\{.*$/, ""),
      VERBS[method],
    ]),
  );
  return [...verbs].map(([subresource, verb]) => ({ resource, subresource, verb }));
}

const SERVED_SUBRESOURCES: readonly ServedSubresource[] = (
  Object.keys(KINDS) as readonly Resource[]
).flatMap(listSubresources);

const NAMESPACE_RESOURCES = Object.entries(NAMESPACE_ROUTES).map(([name, { method }]) => ({
  name,
  verbs: [VERBS[method]],
}));

export const GROUP_LIST: object = { kind: "APIGroupList", apiVersion: "v1", groups: [GROUP] };
export const API_GROUP: object = { kind: "APIGroup", apiVersion: "v1", ...GROUP };

/** Builds the body of `/apis/subresources.kubevirt.io/VERSION`. */
export function buildResourceList(version: string): object {
  const subresources = SERVED_SUBRESOURCES.map(({ resource, subresource, verb }) => ({
    name: `${resource}/${subresource}`,
    singularName: "",
    namespaced: true,
    kind: KINDS[resource],
    verbs: [verb],
  }));
  const namespaceResources = NAMESPACE_RESOURCES.map((resource) => ({
    ...resource,
    singularName: "",
    namespaced: true,
    kind: KINDS.virtualmachines,
  }));
  return {
    kind: "APIResourceList",
    apiVersion: "v1",
    groupVersion: toGroupVersion(version).groupVersion,
    resources: [...subresources, ...namespaceResources],
  };
}

function buildAggregatedResource(resource: string, verbs: readonly string[], kind: object): object {
  return { resource, responseKind: kind, scope: "Namespaced", singularResource: "", verbs };
}

function buildAggregatedVersion(version: string): object {
  const toKind = (resource: Resource) => ({
    group: names.SUBRESOURCES_GROUP,
    version,
    kind: KINDS[resource],
  });
  // The resources have no verbs here, because group kubevirt.io serves them. Source: Kubernetes apiserver aggregated discovery.
  const owners = (Object.keys(KINDS) as readonly Resource[]).map((owner) => ({
    ...buildAggregatedResource(owner, [], {}),
    subresources: SERVED_SUBRESOURCES.filter(({ resource }) => resource === owner).map(
      ({ subresource, verb }) => ({ subresource, responseKind: toKind(owner), verbs: [verb] }),
    ),
  }));
  const namespaceResources = NAMESPACE_RESOURCES.map(({ name, verbs }) =>
    buildAggregatedResource(name, verbs, toKind("virtualmachines")),
  );
  return { version, resources: [...owners, ...namespaceResources], freshness: "Current" };
}

interface AggregatedDiscovery {
  readonly contentType: string;
  readonly body: object;
}

/** Returns the aggregated body of `/apis`; undefined if the client accepts no aggregated body. Source: apidiscovery.k8s.io. */
export function findAggregatedDiscovery(accept: string): AggregatedDiscovery | undefined {
  const acceptedParts = accept
    .split(",")
    .map((type) => type.split(";").map((part) => part.trim()))
    .find((parts) => parts.includes(`g=${AGGREGATED_GROUP}`));
  const format = ["v2", "v2beta1"].find(
    (version) => acceptedParts?.includes(`v=${version}`) === true,
  );
  if (format === undefined || acceptedParts?.includes("as=APIGroupDiscoveryList") !== true)
    return undefined;
  const group = {
    metadata: { name: names.SUBRESOURCES_GROUP },
    versions: VERSIONS.map(buildAggregatedVersion),
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

type OpenApiVersion = "v2" | "v3";

const GROUP_PATH = `/apis/${names.SUBRESOURCES_GROUP}`;

function buildParameter(name: string, openApiVersion: OpenApiVersion): object {
  const type = { type: "string" };
  return {
    name,
    in: "path",
    required: true,
    ...(openApiVersion === "v2" ? { ...type, uniqueItems: true } : { schema: type }),
  };
}

/** Returns a unique name for client generators, for example `v1PutNamespaceVirtualmachinesNameStart`. */
function buildOperationId({ method, path }: Route, version: string): string {
  const parts = path.split(/[^A-Za-z0-9]+/).filter((part) => part !== "" && part !== "namespaces");
  const nameParts = [method, ...parts].map((part) => part.charAt(0).toUpperCase() + part.slice(1));
  return [version, ...nameParts].join("");
}

function buildOperation(route: Route, version: string, openApiVersion: OpenApiVersion): object {
  const { description, isRefused, path, kind } = route;
  const group = names.SUBRESOURCES_GROUP;
  return {
    description: isRefused ? `Refused: Patchbay does not have ${description}.` : `${description}.`,
    operationId: buildOperationId(route, version),
    ...(openApiVersion === "v2" ? { produces: ["application/json"] } : {}),
    parameters: [...path.matchAll(/\{(\w+)\}/g)].map(([, name = ""]) =>
      buildParameter(name, openApiVersion),
    ),
    responses: isRefused
      ? { "400": { description: "Bad Request" } }
      : { "200": { description: "OK" }, "202": { description: "Accepted" } },
    ...(kind === undefined ? {} : { "x-kubernetes-group-version-kind": { group, version, kind } }),
  };
}

function buildPaths(
  version: string,
  openApiVersion: OpenApiVersion,
): Readonly<Record<string, object>> {
  const entries = ROUTES.map((route) => [
    `${GROUP_PATH}/${version}/${route.path}`,
    { [route.method]: buildOperation(route, version, openApiVersion) },
  ]);
  return Object.fromEntries(entries) as Readonly<Record<string, object>>;
}

function buildInfo(release: string): object {
  return { title: "Patchbay's subresources", version: release };
}

/** Builds the body of `/openapi/v2`; `release` is the version of virt-api, for example v0.1.0. */
export function buildSwagger(release: string): object {
  return {
    swagger: "2.0",
    info: buildInfo(release),
    paths: Object.assign({}, ...VERSIONS.map((version) => buildPaths(version, "v2"))) as object,
    definitions: {},
  };
}

export function buildOpenApi3(version: string, release: string): object {
  const paths = buildPaths(version, "v3");
  return { openapi: "3.0.0", info: buildInfo(release), paths, components: { schemas: {} } };
}

/** Builds the body of `/openapi/v3`: URLs of the documents, with a hash of their content. */
export function buildOpenApiIndex(release: string): object {
  const paths = VERSIONS.map((version) => {
    const text = JSON.stringify(buildOpenApi3(version, release));
    const hash = createHash("sha256").update(text).digest("hex").slice(0, 32).toUpperCase();
    const path = `apis/${names.SUBRESOURCES_GROUP}/${version}`;
    return [path, { serverRelativeURL: `/openapi/v3/${path}?hash=${hash}` }] as const;
  });
  return { paths: Object.fromEntries(paths) };
}
