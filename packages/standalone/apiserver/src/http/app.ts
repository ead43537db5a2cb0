// SPDX-License-Identifier: Apache-2.0
import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { cutText } from "@patchbay/api/limits";
import { AppError, isAppError, messageOf, signalClose } from "@patchbay/base";
import express, { type Express, type NextFunction, type Request, type Response } from "express";
import { printJson } from "../objects/json.ts";
import { chooseRepresentation } from "./response/accept.ts";
import { expectedBytes } from "./body.ts";
import {
  type MetricsDeps,
  routeBackup,
  routeHealth,
  routeMetrics,
  routeOpenId,
} from "./routes/system.ts";
import { type DiscoveryDeps, type SendFields, routeDiscovery } from "./routes/discovery.ts";
import { type DispatchDeps, dispatch } from "./dispatch.ts";
import { type AccessFilterDeps, accessFilter, authenticatedUser } from "./access-filter.ts";
import { routeOpenApi } from "./routes/openapi.ts";
import {
  type RenderedResponse,
  formatJson,
  renderReply,
  renderingCost,
  streamReply,
} from "./response/render.ts";
import { type Pieces, sendPieces } from "./response/send-pieces.ts";
import {
  StatusError,
  insufficientStorage,
  internalError,
  tooLarge,
  unknownPath,
} from "../meta/status.ts";
import { parseTarget } from "./target.ts";
import { withReserved } from "../limits/limits.ts";
import { TimeSlice } from "../limits/fair-queue.ts";
import { type Call, type Reply, queueIfHeavy } from "../verbs/call.ts";
import type { User } from "../auth/user.ts";
import { OBJECT_MAX_LENGTH, ObjectTooLong } from "../storage/store.ts";

export interface Aggregator {
  /** Proxies the request. Returns false if this server serves the path itself. */
  serve(request: IncomingMessage, response: ServerResponse, user: User): Promise<boolean>;
}

export interface AppDeps extends DispatchDeps, DiscoveryDeps, AccessFilterDeps, MetricsDeps {
  readonly aggregator: Aggregator;
}

const STREAMED_TEXT_MIN_LENGTH = 16 * 1024;

async function send(
  response: ServerResponse,
  rendered: RenderedResponse,
  options: Pick<Pieces, "unreadMs" | "timeSlice">,
): Promise<void> {
  if (rendered.text.length > STREAMED_TEXT_MIN_LENGTH) {
    await sendPieces(response, { ...rendered, pieces: [rendered.text], ...options });
  } else {
    sendWhole(response, rendered);
  }
}

function sendWhole(response: ServerResponse, rendered: RenderedResponse): void {
  const { code, contentType, text } = rendered;
  response.writeHead(code, {
    "content-type": contentType,
    "content-length": Buffer.byteLength(text),
  });
  response.end(text);
}

async function serveResource(request: Request, response: Response, deps: AppDeps): Promise<void> {
  const url = new URL(request.originalUrl, "https://localhost");
  const user = authenticatedUser(request);
  if (await deps.aggregator.serve(request, response, user)) {
    return;
  }
  const target = parseTarget(url.pathname);
  if (target === undefined) {
    throw unknownPath();
  }
  const { receivedBytes } = deps.quotas;
  const amount = request.method === "GET" ? 0 : expectedBytes(request);
  const dispatchResult = await withReserved(receivedBytes, { user, amount }, response, () =>
    dispatch({ target, query: url.searchParams, user, request, response }, deps),
  );
  if (dispatchResult?.reply !== undefined) {
    const { call, reply } = dispatchResult;
    await sendReply(response, { call, reply }, deps);
  }
}

async function sendReply(
  response: Response,
  { call, reply }: { readonly call: Call; readonly reply: Reply },
  deps: AppDeps,
): Promise<void> {
  const { limits, clock, quotas } = deps;
  const { user } = call;
  const nowMs = clock.now();
  const timeSlice = new TimeSlice(deps, call);
  const options = { unreadMs: limits.unreadMs, timeSlice };
  const pieces = streamReply(call, reply, { nowMs, timeSlice });
  const amount = pieces === undefined ? renderingCost(call, reply) : OBJECT_MAX_LENGTH;
  await withReserved(quotas.unsentBytes, { user, amount }, response, async () => {
    if (pieces !== undefined) {
      await sendPieces(response, { code: 200, ...pieces, ...options });
      return;
    }
    await queueIfHeavy(call, deps, amount);
    await send(response, renderReply(call, reply, nowMs), options);
  });
}

/** A repeated request fails alike, so a defect of the checks refuses the request instead of asking for a retry. */
function toRefusal({ method, path }: Request, error: Error): StatusError {
  const what = `${method} ${path}`;
  const { code, message } = new AppError("API_CHECK_FAILED", {
    what,
    reason: cutText(error.message),
  });
  return new StatusError({ code: 422, reason: "Invalid", message: `${code}: ${message}` });
}

function toStatusError(error: unknown, request: Request, deps: AppDeps): StatusError {
  if (error instanceof StatusError) {
    return error;
  }
  if (error instanceof ObjectTooLong) {
    return tooLarge(`limit of an object is ${String(OBJECT_MAX_LENGTH)}`);
  }
  deps.logger.error("request failed", { err: messageOf(error) });
  if (isAppError(error, "STORE_FULL")) return insufficientStorage(error.message);
  const isDefect = error instanceof RangeError || error instanceof TypeError;
  return isDefect && request.method !== "GET"
    ? toRefusal(request, error)
    : internalError(messageOf(error));
}

function sendError(
  error: unknown,
  exchange: { request: Request; response: Response },
  deps: AppDeps,
): void {
  const { request, response } = exchange;
  const status = toStatusError(error, request, deps);
  if (response.headersSent) {
    response.end(`${printJson({ type: "ERROR", object: status.toBody() })}\n`);
    return;
  }
  const retryAfterSeconds = status.details?.retryAfterSeconds;
  if (retryAfterSeconds !== undefined) {
    response.setHeader("retry-after", String(retryAfterSeconds));
  }
  const isYaml = (request.headers.accept ?? "").startsWith("application/yaml");
  const representation = {
    format: isYaml ? "yaml" : "json",
    as: "object",
    isPretty: false,
  } as const;
  const rendered = formatJson(printJson(status.toBody()), representation);
  sendWhole(response, { code: status.code, ...rendered });
}

function commonHeaders(_request: Request, response: Response, next: NextFunction): void {
  response.setHeader("audit-id", randomUUID());
  response.setHeader("cache-control", "no-cache, private");
  next();
}

function fieldsSender(deps: AppDeps): SendFields {
  return (request, response, fields) => {
    const isPretty = request.query["pretty"] === "true";
    const { format } = chooseRepresentation(request.headers.accept ?? "", isPretty);
    const rendered = formatJson(printJson(fields), { format, as: "object", isPretty });
    const owner = { user: authenticatedUser(request), closed: signalClose(response) };
    const options = { unreadMs: deps.limits.unreadMs, timeSlice: new TimeSlice(deps, owner) };
    void send(response, { code: 200, ...rendered }, options);
  };
}

export function makeApp(deps: AppDeps): Express {
  const app = express();
  const sendFields = fieldsSender(deps);
  app.disable("x-powered-by");
  app.disable("etag");
  app.use(commonHeaders);
  app.use(accessFilter(deps));
  routeHealth(app);
  routeBackup(app, deps);
  routeMetrics(app, deps);
  routeOpenId(app, deps.accountTokens);
  routeDiscovery(app, deps, sendFields);
  routeOpenApi(app, deps, sendFields);
  app.use((request: Request, response: Response) => serveResource(request, response, deps));
  // oxlint-disable-next-line typescript/no-unused-vars -- Express recognizes error handlers by their four parameters
  app.use((error: unknown, request: Request, response: Response, _next: NextFunction) => {
    sendError(error, { request, response }, deps);
  });
  return app;
}
