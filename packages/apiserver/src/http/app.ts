// SPDX-License-Identifier: Apache-2.0
// The routes of the server, and how refusals and failures are answered.
import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { messageOf } from "@patchbay/core";
import express, { type Express, type NextFunction, type Request, type Response } from "express";
import { type Fields, printJson } from "../objects/json.ts";
import { chooseRepresentation } from "./accept.ts";
import { type DiscoveryDeps, routeDiscovery } from "./discovery-routes.ts";
import { type DispatchDeps, dispatch } from "./dispatch.ts";
import { routeHealth } from "./health-routes.ts";
import { routeOpenApi } from "./openapi-routes.ts";
import { inFormat, renderReply, type Rendered } from "./render.ts";
import { StatusError, forbidden, internalError, unauthorized, unknownPath } from "./status.ts";
import { parseTarget } from "./target.ts";
import type { User } from "../auth/user.ts";

/** A server behind this one. */
export interface Aggregator {
  /** Serves the request where the path belongs to an aggregated API; false where it does not. */
  serve(request: IncomingMessage, response: ServerResponse, user: User): Promise<boolean>;
}

/** What the routes work with. */
export interface AppDeps extends DispatchDeps, DiscoveryDeps {
  readonly aggregator: Aggregator;
}

/** Users by request, once authenticated. */
const USERS = new WeakMap<IncomingMessage, User>();

/** The user of an authenticated request. */
function userOf(request: IncomingMessage): User {
  const user = USERS.get(request);
  if (user === undefined) {
    throw unauthorized();
  }
  return user;
}

function send(response: ServerResponse, rendered: Rendered): void {
  response.writeHead(rendered.code, {
    "content-type": rendered.contentType,
    "content-length": Buffer.byteLength(rendered.text),
  });
  response.end(rendered.text);
}

/** Source: Kubernetes "Warning" headers, RFC 7234 5.5. */
function addWarnings(response: ServerResponse, warnings: readonly string[]): void {
  if (warnings.length > 0) {
    const headers = [...new Set(warnings)].map(
      (warning) => `299 - "${warning.replace(/[\\"]/g, "\\$&").replace(/[\r\n]+/g, " ")}"`,
    );
    response.setHeader("warning", headers);
  }
}

async function serveResource(request: Request, response: Response, deps: AppDeps): Promise<void> {
  const url = new URL(request.originalUrl, "https://localhost");
  const user = userOf(request);
  if (await deps.aggregator.serve(request, response, user)) {
    return;
  }
  const target = parseTarget(url.pathname);
  if (target === undefined) {
    throw unknownPath();
  }
  const { call, reply } = await dispatch(
    { target, query: url.searchParams, user, request, response },
    deps,
  );
  if (reply !== undefined) {
    addWarnings(response, call.warnings);
    send(response, renderReply(call, reply, deps.clock.now()));
  }
}

function toStatusError(error: unknown, deps: AppDeps): StatusError {
  if (error instanceof StatusError) {
    return error;
  }
  deps.logger.error("request failed", { err: messageOf(error) });
  return internalError(messageOf(error));
}

function sendError(
  error: unknown,
  exchange: { request: Request; response: Response },
  deps: AppDeps,
): void {
  const status = toStatusError(error, deps);
  const { request, response } = exchange;
  if (response.headersSent) {
    response.end(`${printJson({ type: "ERROR", object: status.toBody() })}\n`);
    return;
  }
  const retry = status.details?.retryAfterSeconds;
  if (retry !== undefined) {
    response.setHeader("retry-after", String(retry));
  }
  const yaml = (request.headers.accept ?? "").startsWith("application/yaml");
  const representation = { format: yaml ? "yaml" : "json", as: "object", pretty: false } as const;
  send(response, { code: status.code, ...inFormat(printJson(status.toBody()), representation) });
}

function authenticate(deps: AppDeps) {
  return (request: Request, _response: Response, next: NextFunction): void => {
    const user = deps.authentication.find(request);
    if (user === undefined) {
      throw unauthorized();
    }
    USERS.set(request, impersonated(request, user, deps));
    next();
  };
}

/** Whom the user acts for; themselves unless they ask otherwise. Throws a StatusError 403. */
function impersonated(request: Request, user: User, deps: AppDeps): User {
  const name = request.headers["impersonate-user"];
  if (typeof name !== "string") {
    return user;
  }
  const about = { group: "", resource: "users", kind: "User" };
  const attributes = { verb: "impersonate", group: "", version: "v1", resource: "users" } as const;
  const target = { subresource: "", namespace: "", name, path: "" } as const;
  if (!deps.authorize(user, { ...attributes, ...target }).allowed) {
    throw forbidden(
      about,
      name,
      `User "${user.name}" cannot impersonate resource "users" in API group "" at the cluster scope`,
    );
  }
  // Node joins headers of one name by commas.
  const groups = [request.headers["impersonate-group"] ?? []]
    .flat()
    .flatMap((text) => text.split(/,\s*/));
  return { name, groups: [...groups, "system:authenticated"] };
}

function commonHeaders(_request: Request, response: Response, next: NextFunction): void {
  response.setHeader("audit-id", randomUUID());
  response.setHeader("cache-control", "no-cache, private");
  next();
}

function sendFields(request: Request, response: Response, fields: Fields): void {
  const pretty = request.query["pretty"] === "true";
  const { format } = chooseRepresentation(request.headers.accept ?? "", pretty);
  send(response, { code: 200, ...inFormat(printJson(fields), { format, as: "object", pretty }) });
}

/** Builds the routes. */
export function makeApp(deps: AppDeps): Express {
  const app = express();
  app.disable("x-powered-by");
  app.disable("etag");
  app.use(commonHeaders);
  routeHealth(app);
  app.use(authenticate(deps));
  routeDiscovery(app, deps, sendFields);
  routeOpenApi(app, deps.registry, sendFields);
  app.use((request: Request, response: Response) => serveResource(request, response, deps));
  // Express knows an error handler by its four parameters.
  // eslint-disable-next-line max-params, @typescript-eslint/no-unused-vars -- see above
  app.use((error: unknown, request: Request, response: Response, _next: NextFunction) => {
    sendError(error, { request, response }, deps);
  });
  return app;
}
