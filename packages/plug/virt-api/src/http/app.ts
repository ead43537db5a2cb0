// SPDX-License-Identifier: Apache-2.0
// Which path leads to which route.
import { names } from "@patchbay/api";
import { messageOf } from "@patchbay/core";
import express, {
  type ErrorRequestHandler,
  type Express,
  type Request,
  type RequestHandler,
  type Response,
} from "express";
import { mutate } from "../admission/mutate.ts";
import {
  parseReview,
  printReview,
  type AdmissionRequest,
  type Verdict,
} from "../admission/review.ts";
import { validate } from "../admission/validate.ts";
import type { CallHandler } from "../routes/call.ts";
import type { Deps } from "../deps.ts";
import { configHealth, type ClientAuthority } from "@patchbay/daemon";
import { findRemoteUser } from "../callers/front-proxy.ts";
import { boundRoutes } from "../routes/bound-routes.ts";
import { aggregatedFor, API_GROUP, GROUP_LIST, resourceListOf } from "../routes/discovery.ts";
import { openApi3Of, openApiIndexOf, swaggerOf } from "../routes/openapi.ts";
import { VERSIONS } from "../routes/table.ts";
import { parseBody, toCall } from "./request.ts";
import { toErrorAnswer, toFailureAnswer, type Answer } from "./answers.ts";

/** An AdmissionReview holds two objects of at most 3 MiB each. Source: Kubernetes limitedReadBody. */
const BODY_MAX_BYTES = 8 * 1024 * 1024;
/** Reads a body only from whoever may ask. */
const TEXT_BODY = express.text({ type: () => true, limit: BODY_MAX_BYTES });
const GROUP_PATH = `/apis/${names.SUBRESOURCES_GROUP}`;

function send(response: Response, answer: Answer): void {
  response.status(answer.code);
  if (answer.type === undefined) response.json(answer.body);
  else response.type(answer.type).send(answer.body);
}

/** Whose requests are believed. */
export interface Callers {
  /** Brings users to the subresources; absent: nobody does. */
  readonly frontProxy?: ClientAuthority;
  /** Asks at admission; absent: everybody may. */
  readonly webhooks?: ClientAuthority;
}

function refuseUnless(isKnown: (request: Request) => boolean): RequestHandler {
  return (request, response, next) => {
    if (isKnown(request)) next();
    else send(response, toFailureAnswer({ code: 401, message: "Unauthorized" }));
  };
}

function serve(handle: CallHandler, callers: Callers): RequestHandler {
  return async (request, response) => {
    send(response, await handle(toCall(request, callers.frontProxy)));
  };
}

const JUDGES = { mutate, validate } satisfies Record<string, Judge>;

type Judge = (deps: Deps, request: AdmissionRequest) => Promise<Verdict>;

function serveReview(deps: Deps, webhook: keyof typeof JUDGES): RequestHandler {
  return async (request, response) => {
    const review = parseReview(parseBody(request));
    const counted = { webhook, operation: review.operation };
    try {
      const verdict = await JUDGES[webhook](deps, review);
      deps.countDecision({ ...counted, decision: verdict.allowed ? "allowed" : "denied" });
      response.json(printReview(review, verdict));
    } catch (error) {
      deps.countDecision({ ...counted, decision: "failed" });
      throw error;
    }
  };
}

function serveRoutes(app: Express, deps: Deps, callers: Callers): void {
  for (const { path, method, handle } of boundRoutes(deps)) {
    const pattern = path.replaceAll("{", ":").replaceAll("}", "");
    const served = VERSIONS.map((version) => `${GROUP_PATH}/${version}/${pattern}`);
    app[method](served, serve(handle, callers));
    app.all(served, (_request, response) => {
      const message = "the server does not allow this method on the requested resource";
      send(response, toFailureAnswer({ code: 405, message }));
    });
  }
}

function serveDiscovery(app: Express): void {
  app.get("/apis", (request, response) => {
    const aggregated = aggregatedFor(request.headers.accept ?? "");
    if (aggregated === undefined) response.json(GROUP_LIST);
    else response.type(aggregated.contentType).send(JSON.stringify(aggregated.body));
  });
  app.get(GROUP_PATH, (_request, response) => void response.json(API_GROUP));
  for (const version of VERSIONS) {
    const list = resourceListOf(version);
    app.get(`${GROUP_PATH}/${version}`, (_request, response) => void response.json(list));
  }
}

function serveOpenApi(app: Express, { release }: Deps): void {
  const index = openApiIndexOf(release);
  const swagger = swaggerOf(release);
  app.get("/openapi/v2", (_request, response) => void response.json(swagger));
  app.get("/openapi/v3", (_request, response) => void response.json(index));
  for (const version of VERSIONS) {
    const document = openApi3Of(version, release);
    const path = `/openapi/v3${GROUP_PATH}/${version}`;
    app.get(path, (_request, response) => void response.json(document));
  }
}

function statusOfHttpError(error: unknown): number | undefined {
  const isHttp = typeof error === "object" && error !== null && "status" in error;
  return isHttp && typeof error.status === "number" ? error.status : undefined;
}

function answerErrors(deps: Deps): ErrorRequestHandler {
  // Express knows an error handler by its four parameters.
  return (error: unknown, request, response, next) => {
    if (response.headersSent) {
      next(error);
      return;
    }
    const status = statusOfHttpError(error);
    const answer =
      status === undefined
        ? toErrorAnswer(error)
        : toFailureAnswer({ code: status, message: messageOf(error) });
    const fields = { method: request.method, path: request.path, err: error };
    if (answer.code >= 500) deps.log.error("request failed", fields);
    send(response, answer);
  };
}

function serveAdmission(app: Express, deps: Deps, { webhooks }: Callers): void {
  const isKnown = (request: Request): boolean => webhooks?.vouchesFor(request) ?? true;
  for (const webhook of ["mutate", "validate"] as const) {
    app.post(`/${webhook}`, refuseUnless(isKnown), TEXT_BODY, serveReview(deps, webhook));
  }
}

function serveGroup(app: Express, deps: Deps, callers: Callers): void {
  const { frontProxy } = callers;
  app.use(
    ["/apis", "/openapi"],
    refuseUnless((request) => findRemoteUser(frontProxy, request) !== undefined),
    TEXT_BODY,
  );
  serveDiscovery(app);
  serveOpenApi(app, deps);
  serveRoutes(app, deps, callers);
}

/** Makes the application; it holds no state of its own. */
export function createApp(deps: Deps, callers: Callers): Express {
  const app = express();
  app.disable("x-powered-by");
  // KubeVirt's suite of tests asks with two slashes.
  app.get(/^\/{1,2}healthz$/, (_request, response) => {
    send(response, configHealth(true, deps.configVersion()));
  });
  serveAdmission(app, deps, callers);
  serveGroup(app, deps, callers);
  app.use((_request, response) => {
    const message = "the server could not find the requested resource";
    send(response, toFailureAnswer({ code: 404, message }));
  });
  app.use(answerErrors(deps));
  return app;
}
