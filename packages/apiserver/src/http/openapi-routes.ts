// SPDX-License-Identifier: Apache-2.0
// Paths of the OpenAPI documents.
import type { Express, NextFunction, Request, Response } from "express";
import type { Kind } from "../kinds/kind.ts";
import type { RemoteDiscovery } from "../aggregation/remote-discovery.ts";
import type { Registry } from "../kinds/registry.ts";
import { type Fields, fieldsOf } from "../objects/json.ts";
import { pathOfVersion, toIndex, toOpenApi3, toSwagger } from "../openapi/documents.ts";
import { toProtobuf } from "../openapi/protobuf.ts";
import type { SendFields } from "./discovery-routes.ts";

/** What the routes work with. */
export interface OpenApiDeps {
  readonly registry: Registry;
  readonly remote: RemoteDiscovery;
}

const PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

function kindsOfPath(registry: Registry, path: string): readonly Kind[] {
  return registry.list().filter((kind) => pathOfVersion(kind) === path);
}

/** Documents of other servers; a request for one is passed on to its server. */
function remotePaths(remote: RemoteDiscovery): Fields {
  const entries = remote
    .list()
    .filter(({ isAvailable, documents }) => isAvailable && (documents?.openApiUrl ?? "") !== "")
    .map(({ group, version, documents }) => {
      return [`apis/${group}/${version}`, { serverRelativeURL: documents?.openApiUrl }] as const;
    });
  return Object.fromEntries(entries);
}

function pathOf(request: Request): string {
  return new URL(request.originalUrl, "https://localhost").pathname.slice("/openapi/v3/".length);
}

/** Adds the routes. Documents are made when they are asked for: that is rare, and they change with every definition. */
export function routeOpenApi(app: Express, deps: OpenApiDeps, send: SendFields): void {
  const { registry, remote } = deps;
  app.get("/openapi/v2", (request: Request, response: Response) => {
    const document = toSwagger(registry.list());
    if ((request.headers.accept ?? "").includes("com.github.proto-openapi.spec.v2")) {
      response.setHeader("content-type", PROTOBUF);
      response.end(toProtobuf(document));
    } else {
      send(request, response, document);
    }
  });
  app.get("/openapi/v3", (request: Request, response: Response) => {
    const { paths } = toIndex(registry.list());
    send(request, response, { paths: { ...fieldsOf(paths), ...remotePaths(remote) } });
  });
  const document = (request: Request, response: Response, next: NextFunction): void => {
    const kinds = kindsOfPath(registry, pathOf(request));
    const [, group = "", version = ""] = pathOf(request).split("/");
    if (kinds.length === 0 || remote.has(group, version)) {
      next();
    } else {
      send(request, response, toOpenApi3(kinds));
    }
  };
  app.get("/openapi/v3/api/:version", document);
  app.get("/openapi/v3/apis/:group/:version", document);
}
