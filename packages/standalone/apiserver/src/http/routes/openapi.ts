// SPDX-License-Identifier: Apache-2.0
import { createHash } from "node:crypto";
import { gzipSync } from "node:zlib";
import type { Express, NextFunction, Request, Response } from "express";
import type { RemoteDiscovery } from "../../aggregation/remote-discovery.ts";
import type { Kind } from "../../kinds/kind.ts";
import type { Registry } from "../../kinds/registry.ts";
import { type Fields, asFields, printJson } from "../../objects/json.ts";
import {
  documentAddress,
  buildVersionPath,
  toIndex,
  toOpenApi3,
  toSwagger,
} from "../../openapi/documents.ts";
import { toProtobuf } from "../../openapi/protobuf.ts";
import type { SendFields } from "./discovery.ts";

const GZIP_MIN_BYTES = 1024;

function entityTag(content: Buffer): string {
  return `"${createHash("sha256").update(content).digest("hex").slice(0, 32).toUpperCase()}"`;
}

function hasTag(request: Request, tag: string): boolean {
  const tags = (request.headers["if-none-match"] ?? "").split(",").map((entry) => entry.trim());
  return tags.some((entry) => entry === "*" || entry.replace(/^W\//, "") === tag);
}

function sendDocument(
  request: Request,
  response: Response,
  document: { readonly contentType: string; readonly content: Buffer },
): void {
  const { contentType, content } = document;
  const tag = entityTag(content);
  response.setHeader("etag", tag);
  response.setHeader("vary", "Accept-Encoding, Accept");
  if (hasTag(request, tag)) {
    response.status(304).end();
    return;
  }
  response.setHeader("content-type", contentType);
  const isCompressed =
    content.length >= GZIP_MIN_BYTES && request.acceptsEncodings("gzip") === "gzip";
  if (isCompressed) {
    response.setHeader("content-encoding", "gzip");
  }
  const body = isCompressed ? gzipSync(content) : content;
  response.setHeader("content-length", body.length);
  response.end(body);
}

interface OpenApiDeps {
  readonly registry: Registry;
  readonly remote: RemoteDiscovery;
}

const V3_PREFIX = "/openapi/v3/";
const PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

function listKindsAtPath(registry: Registry, path: string): readonly Kind[] {
  return registry.list().filter((kind) => buildVersionPath(kind) === path);
}

function remotePaths(remote: RemoteDiscovery): Fields {
  const entries = remote
    .list()
    .filter(({ isAvailable, documents }) => isAvailable && (documents?.openApiUrl ?? "") !== "")
    .map(({ group, version, documents }) => {
      return [`apis/${group}/${version}`, { serverRelativeURL: documents?.openApiUrl }] as const;
    });
  return Object.fromEntries(entries);
}

function requestUrl(request: Request): URL {
  return new URL(request.originalUrl, "https://localhost");
}

function sendJson(request: Request, response: Response, fields: Fields): void {
  const content = Buffer.from(printJson(fields));
  sendDocument(request, response, { contentType: "application/json", content });
}

function sendV2(request: Request, response: Response, kinds: readonly Kind[]): void {
  const document = toSwagger(kinds);
  if ((request.headers.accept ?? "").includes("com.github.proto-openapi.spec.v2")) {
    const content = toProtobuf(document);
    sendDocument(request, response, { contentType: PROTOBUF, content });
  } else {
    sendJson(request, response, document);
  }
}

/** Sends a document. Redirects a request with an outdated hash to the address with the current hash. */
function sendV3(request: Request, response: Response, kinds: readonly Kind[]): void {
  const { pathname, search } = requestUrl(request);
  const address = documentAddress(pathname.slice(V3_PREFIX.length), kinds);
  if (search.includes("hash=") && `${pathname}${search}` !== address) {
    response.redirect(301, address);
    return;
  }
  if (search !== "") {
    response.setHeader("cache-control", "public, immutable, max-age=31536000");
  }
  sendJson(request, response, toOpenApi3(kinds));
}

/** Adds the OpenAPI routes. Documents are built on each request, because requests are rare and definitions change. */
export function routeOpenApi(app: Express, deps: OpenApiDeps, send: SendFields): void {
  const { registry, remote } = deps;
  app.get("/openapi/v2", (request: Request, response: Response) => {
    sendV2(request, response, registry.list());
  });
  app.get("/openapi/v3", (request: Request, response: Response) => {
    const { paths } = toIndex(registry.list());
    send(request, response, { paths: { ...asFields(paths), ...remotePaths(remote) } });
  });
  const serveDocument = (request: Request, response: Response, next: NextFunction): void => {
    const path = requestUrl(request).pathname.slice(V3_PREFIX.length);
    const kinds = listKindsAtPath(registry, path);
    const [, group = "", version = ""] = path.split("/");
    if (kinds.length === 0 || remote.has(group, version)) {
      next();
    } else {
      sendV3(request, response, kinds);
    }
  };
  app.get("/openapi/v3/api/:version", serveDocument);
  app.get("/openapi/v3/apis/:group/:version", serveDocument);
}
