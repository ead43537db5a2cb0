// SPDX-License-Identifier: Apache-2.0
// Paths of the OpenAPI documents.
import type { Express, NextFunction, Request, Response } from "express";
import type { Kind } from "../kinds/kind.ts";
import type { Registry } from "../kinds/registry.ts";
import { pathOfVersion, toIndex, toOpenApi3, toSwagger } from "../openapi/documents.ts";
import { toProtobuf } from "../openapi/protobuf.ts";
import type { SendFields } from "./discovery-routes.ts";

const PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

function kindsOfPath(registry: Registry, path: string): readonly Kind[] {
  return registry.list().filter((kind) => pathOfVersion(kind) === path);
}

function pathOf(request: Request): string {
  return new URL(request.originalUrl, "https://localhost").pathname.slice("/openapi/v3/".length);
}

/** Adds the routes. Documents are made when they are asked for: that is rare, and they change with every definition. */
export function routeOpenApi(app: Express, registry: Registry, send: SendFields): void {
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
    send(request, response, toIndex(registry.list()));
  });
  const document = (request: Request, response: Response, next: NextFunction): void => {
    const kinds = kindsOfPath(registry, pathOf(request));
    if (kinds.length === 0) {
      next();
    } else {
      send(request, response, toOpenApi3(kinds));
    }
  };
  app.get("/openapi/v3/api/:version", document);
  app.get("/openapi/v3/apis/:group/:version", document);
}
