// SPDX-License-Identifier: Apache-2.0
// The routes of the server, and how refusals and failures are answered.
import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { messageOf } from "@patchbay/core/errors";
import express, { type Express, type NextFunction, type Request, type Response } from "express";
import { type Fields, printJson } from "../objects/json.ts";
import { chooseRepresentation } from "./accept.ts";
import { routeBackup } from "./backup-route.ts";
import { type DiscoveryDeps, routeDiscovery } from "./discovery-routes.ts";
import { type DispatchDeps, dispatch } from "./dispatch.ts";
import { type GateDeps, gate, userOf } from "./gate.ts";
import { routeHealth } from "./health-routes.ts";
import { routeOpenApi } from "./openapi-routes.ts";
import { routeOpenId } from "./openid-routes.ts";
import { inFormat, piecesOf, renderReply, type Rendered } from "./render.ts";
import { sendPieces } from "./send-pieces.ts";
import { StatusError, internalError, unknownPath } from "./status.ts";
import { parseTarget } from "./target.ts";
import type { User } from "../auth/user.ts";

/** A server behind this one. */
export interface Aggregator {
  /** Serves the request where the path belongs to an aggregated API; false where it does not. */
  serve(request: IncomingMessage, response: ServerResponse, user: User): Promise<boolean>;
}

/** What the routes work with. */
export interface AppDeps extends DispatchDeps, DiscoveryDeps, GateDeps {
  readonly aggregator: Aggregator;
}

/** Longer answers are sent at the pace of the client. */
const WHOLE_LENGTH = 16 * 1024;

function send(response: ServerResponse, { code, contentType, text }: Rendered): void {
  if (text.length > WHOLE_LENGTH) {
    void sendPieces(response, { code, contentType, pieces: [text] });
    return;
  }
  response.writeHead(code, {
    "content-type": contentType,
    "content-length": Buffer.byteLength(text),
  });
  response.end(text);
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
    const pieces = piecesOf(call, reply);
    if (pieces !== undefined) {
      await sendPieces(response, { code: 200, contentType: "application/json", pieces });
      return;
    }
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
  app.use(gate(deps));
  routeHealth(app);
  routeBackup(app, deps.store);
  routeOpenId(app, deps.accountTokens);
  routeDiscovery(app, deps, sendFields);
  routeOpenApi(app, deps, sendFields);
  app.use((request: Request, response: Response) => serveResource(request, response, deps));
  // Express knows an error handler by its four parameters.
  // eslint-disable-next-line max-params, @typescript-eslint/no-unused-vars -- see above
  app.use((error: unknown, request: Request, response: Response, _next: NextFunction) => {
    sendError(error, { request, response }, deps);
  });
  return app;
}
