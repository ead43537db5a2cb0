// SPDX-License-Identifier: Apache-2.0
import type { Express, NextFunction, Request, Response } from "express";
import {
  aggregatedContentType,
  aggregatedVersion,
  toApiGroup,
  toApiGroupList,
  toApiResourceList,
  toApiVersions,
  toDiscoveryList,
} from "../../discovery/documents.ts";
import { type ServedGroup, toServedGroups } from "../../discovery/served-groups.ts";
import type { RemoteDiscovery } from "../../aggregation/remote-discovery.ts";
import type { Registry } from "../../kinds/registry.ts";
import { type Fields, printJson } from "../../objects/json.ts";

export interface DiscoveryDeps {
  readonly registry: Registry;
  readonly remote: RemoteDiscovery;
}

export type SendFields = (request: Request, response: Response, fields: Fields) => void;

function servedGroups(deps: DiscoveryDeps): readonly ServedGroup[] {
  const ownVersions = deps.registry.list().map((kind) => [kind.group, kind.version] as const);
  const remoteVersions = deps.remote.list().map(({ group, version }) => [group, version] as const);
  return toServedGroups([...ownVersions, ...remoteVersions], deps.remote.makePriorityLookup());
}

function resourceList(deps: DiscoveryDeps, group: string, version: string): Fields | undefined {
  const kinds = deps.registry
    .list()
    .filter((kind) => kind.group === group && kind.version === version);
  const groupVersion = group === "" ? version : `${group}/${version}`;
  return kinds.length === 0 || deps.remote.has(group, version)
    ? undefined
    : toApiResourceList(groupVersion, kinds);
}

function sendAggregated(deps: DiscoveryDeps, root: "/api" | "/apis") {
  return (request: Request, response: Response, next: NextFunction): void => {
    const version = aggregatedVersion(request.headers.accept ?? "");
    if (version === undefined) {
      next();
      return;
    }
    const groups = servedGroups(deps);
    const servedVersions = { kinds: deps.registry.list(), groups, remote: deps.remote.list() };
    response.setHeader("content-type", aggregatedContentType(version));
    response.end(printJson(toDiscoveryList(servedVersions, { root, version })));
  };
}

function pathParameter(request: Request, name: string): string {
  const value: unknown = request.params[name];
  return typeof value === "string" ? value : "";
}

const ROOT_PATHS: readonly string[] = [
  "/api",
  "/api/v1",
  "/apis",
  "/healthz",
  "/livez",
  "/openapi/v2",
  "/openapi/v3",
  "/readyz",
  "/version",
];

export function routeDiscovery(app: Express, deps: DiscoveryDeps, send: SendFields): void {
  const respondWith = (find: (request: Request) => Fields | undefined) => {
    return (request: Request, response: Response, next: NextFunction): void => {
      const fields = find(request);
      if (fields === undefined) {
        next();
      } else {
        send(request, response, fields);
      }
    };
  };
  app.get(
    "/",
    respondWith(() => ({ paths: ROOT_PATHS })),
  );
  app.get("/api", sendAggregated(deps, "/api"));
  app.get("/apis", sendAggregated(deps, "/apis"));
  app.get(
    "/api",
    respondWith((request) => toApiVersions(request.headers.host ?? "")),
  );
  app.get(
    "/apis",
    respondWith(() => toApiGroupList(servedGroups(deps))),
  );
  app.get(
    "/api/:version",
    respondWith((request) => resourceList(deps, "", pathParameter(request, "version"))),
  );
  app.get(
    "/apis/:group",
    respondWith((request) => {
      const group = servedGroups(deps).find(({ name }) => name === pathParameter(request, "group"));
      return group === undefined ? undefined : toApiGroup(group);
    }),
  );
  app.get(
    "/apis/:group/:version",
    respondWith((request) =>
      resourceList(deps, pathParameter(request, "group"), pathParameter(request, "version")),
    ),
  );
}
