// SPDX-License-Identifier: Apache-2.0
// The HTTP application: admission webhooks, subresources, discovery and OpenAPI.
import {
  AppError,
  messageOf,
  SHARE_KEYS,
  SharePool,
  signalClose,
  type PoolLimits,
} from "@patchbay/base";
import express, {
  type Request,
  type ErrorRequestHandler,
  type Express,
  type RequestHandler,
  type Response,
} from "express";
import { type ClientAuthority, configHealth } from "@patchbay/daemon";
import {
  findRemoteUser,
  type User,
  type Call,
  type CallHandler,
  toErrorAnswer,
  toFailureAnswer,
  type Answer,
} from "./calls.ts";
import type { RequestListener } from "node:http";
import type { Metrics } from "@patchbay/telemetry";
import { ROUTES, VERSIONS } from "../routes/table.ts";
import { names } from "@patchbay/api";
import { mutate } from "../admission/mutate.ts";
import {
  parseReview,
  printReview,
  refuseUnjudged,
  type AdmissionRequest,
  type Verdict,
} from "../admission/review.ts";
import { validate } from "../admission/validate.ts";
import type { Deps } from "../deps.ts";
import { bindRoutes } from "../routes/bound-routes.ts";
import {
  findAggregatedDiscovery,
  API_GROUP,
  GROUP_LIST,
  buildResourceList,
  buildOpenApi3,
  buildOpenApiIndex,
  buildSwagger,
} from "../routes/discovery.ts";

const ANONYMOUS_USER: User = { name: "", groups: [] };

function parseBody(request: Request): unknown {
  const text: unknown = request.body;
  if (typeof text !== "string" || text.trim() === "") return undefined;
  try {
    return JSON.parse(text);
  } catch (cause) {
    const reason = messageOf(cause);
    throw new AppError("API_MALFORMED", { what: "the request body", reason }, { cause });
  }
}

function isDryRun(request: Request, body: unknown): boolean {
  const bodyValue =
    typeof body === "object" && body !== null && "dryRun" in body ? body.dryRun : [];
  return [request.query["dryRun"], bodyValue].flat().includes("All");
}

function readParameter(request: Request, name: string): string {
  const value = request.params[name];
  return typeof value === "string" ? value : "";
}

/** Converts a request. `ANONYMOUS_USER` is never used, because the router has already rejected requests without a user. */
function toCall(request: Request, frontProxy: ClientAuthority | undefined): Call {
  const body = parseBody(request);
  return {
    namespace: readParameter(request, "namespace"),
    name: readParameter(request, "name"),
    user: findRemoteUser(frontProxy, request) ?? ANONYMOUS_USER,
    dryRun: isDryRun(request, body),
    query: new URL(request.url, "http://virt-api").searchParams,
    body,
  };
}

const CALL_NAMES: ReadonlySet<string> = new Set([
  "mutate",
  "validate",
  ...ROUTES.map(({ call }) => call),
]);

/** Index of the subresource in `/apis/GROUP/VERSION/namespaces/NAMESPACE/RESOURCE/NAME/SUBRESOURCE`. */
const SUBRESOURCE_INDEX = 8;

/** Returns the name of the call for metrics: `mutate`, `validate`, the subresource, or `other`. */
export function parseCallName(url: string): string {
  const [path = ""] = url.split("?");
  const parts = path.split("/");
  const name = parts[SUBRESOURCE_INDEX] ?? parts.at(-1) ?? "";
  return CALL_NAMES.has(name) ? name : "other";
}

export function countRequests(
  handleRequest: RequestListener,
  metrics: Pick<Metrics, "countServed">,
): RequestListener {
  return (request, response) => {
    metrics.countServed(parseCallName(request.url ?? ""));
    handleRequest(request, response);
  };
}

/** Maximum size of a body. An AdmissionReview contains two objects of at most 3 MiB each. Source: Kubernetes limitedReadBody. */
const BODY_MAX_BYTES = 8 * 1024 * 1024;
const MIB = 1024 * 1024;
/** Limits on the total size of unanswered bodies. On a cluster, the API server sends reviews without a client certificate. */
const BODY_LIMITS: PoolLimits = { max: 128 * MIB, share: 32 * MIB, reserve: 64 * MIB };
/** Maximum size of a body without a reservation, in bytes. */
const UNRESERVED_MAX = 16 * 1024;
/** Reads bodies as text. Routes must authenticate clients before they call this parser. */
const parseTextBody = express.text({ type: () => true, limit: BODY_MAX_BYTES });
const GROUP_PATH = `/apis/${names.SUBRESOURCES_GROUP}`;

function send(response: Response, answer: Answer): void {
  response.status(answer.code);
  if (answer.type === undefined) response.json(answer.body);
  else response.type(answer.type).send(answer.body);
}

export interface Callers {
  /** Authenticates users of subresources. If unset, virt-api rejects every subresource request. */
  readonly frontProxy?: ClientAuthority;
  /** Authenticates webhook calls. If unset, virt-api accepts webhook calls of every client. */
  readonly webhooks?: ClientAuthority;
}

function rejectUnless(isAuthenticated: (request: Request) => boolean): RequestHandler {
  return (request, response, next) => {
    if (isAuthenticated(request)) next();
    else send(response, toFailureAnswer({ code: 401, message: "Unauthorized" }));
  };
}

function findBodyKey(request: Request, { frontProxy, webhooks }: Callers): string {
  const user = findRemoteUser(frontProxy, request);
  if (user !== undefined) return SHARE_KEYS.user(user);
  return webhooks?.isTrustedClient(request) === true
    ? SHARE_KEYS.system("webhooks")
    : SHARE_KEYS.peer(request.socket.remoteAddress);
}

/** Delays a request until its client's share has room for the body. */
function reserveBody(callers: Callers): RequestHandler {
  const bodies = new SharePool(BODY_LIMITS);
  return async (request, response, next) => {
    const { "content-length": length, "transfer-encoding": encoding } = request.headers;
    const bytes = Math.min(encoding === undefined ? Number(length ?? 0) : Infinity, BODY_MAX_BYTES);
    if (bytes > UNRESERVED_MAX) {
      const closed = new AbortController();
      const release = bodies.acquire(findBodyKey(request, callers), bytes, closed.signal);
      response.once("close", () => {
        closed.abort();
        void release.then((releaseBytes) => releaseBytes?.());
      });
      if ((await release) === undefined) return;
    }
    next();
  };
}

/** Changes of VMs that a user may request at once, such as plugs. Each plug takes half a second of a core, mostly in other services. */
export const CHANGE_BURST = 20;

function serve(
  handle: CallHandler,
  { frontProxy }: Callers,
  changeRate: Deps["changeRate"],
): RequestHandler {
  return async (request, response) => {
    const call = toCall(request, frontProxy);
    const key = SHARE_KEYS.user(call.user);
    const waits = request.method === "PUT" && !call.dryRun;
    if (waits && !(await changeRate.proceed(key, signalClose(response)))) return;
    send(response, await handle(call));
  };
}

const WEBHOOKS = { mutate, validate } satisfies Record<string, Webhook>;

type Webhook = (deps: Deps, request: AdmissionRequest) => Promise<Verdict>;

/** Errors of connections have a code, as Node.js's own RangeErrors and TypeErrors do. */
function isJudgmentError(error: unknown): error is Error {
  if (error instanceof RangeError || error instanceof TypeError) return true;
  return error instanceof Error && !("code" in error);
}

async function judge(
  deps: Deps,
  webhook: keyof typeof WEBHOOKS,
  review: AdmissionRequest,
): Promise<Verdict> {
  try {
    return await WEBHOOKS[webhook](deps, review);
  } catch (error) {
    if (!isJudgmentError(error)) throw error;
    const { kind, namespace, name } = review;
    deps.log.error("judging an object failed", {
      kind,
      object: `${namespace}/${name}`,
      err: error,
    });
    return refuseUnjudged(review, error);
  }
}

function serveReview(deps: Deps, webhook: keyof typeof WEBHOOKS): RequestHandler {
  return async (request, response) => {
    const review = parseReview(parseBody(request));
    const labels = { webhook, operation: review.operation };
    try {
      const verdict = await judge(deps, webhook, review);
      deps.countDecision({ ...labels, decision: verdict.allowed ? "allowed" : "denied" });
      response.json(printReview(review, verdict));
    } catch (error) {
      deps.countDecision({ ...labels, decision: "failed" });
      throw error;
    }
  };
}

function serveRoutes(app: Express, deps: Deps, callers: Callers): void {
  for (const { path, method, handle } of bindRoutes(deps)) {
    const expressPath = path.replaceAll("{", ":").replaceAll("}", "");
    const patterns = VERSIONS.map((version) => `${GROUP_PATH}/${version}/${expressPath}`);
    app[method](patterns, serve(handle, callers, deps.changeRate));
    app.all(patterns, (_request, response) => {
      const message = "the server does not allow this method on the requested resource";
      send(response, toFailureAnswer({ code: 405, message }));
    });
  }
}

function serveDiscovery(app: Express): void {
  app.get("/apis", (request, response) => {
    const aggregated = findAggregatedDiscovery(request.headers.accept ?? "");
    if (aggregated === undefined) response.json(GROUP_LIST);
    else response.type(aggregated.contentType).send(JSON.stringify(aggregated.body));
  });
  app.get(GROUP_PATH, (_request, response) => void response.json(API_GROUP));
  for (const version of VERSIONS) {
    const list = buildResourceList(version);
    app.get(`${GROUP_PATH}/${version}`, (_request, response) => void response.json(list));
  }
}

function serveOpenApi(app: Express, { release }: Deps): void {
  const index = buildOpenApiIndex(release);
  const swagger = buildSwagger(release);
  app.get("/openapi/v2", (_request, response) => void response.json(swagger));
  app.get("/openapi/v3", (_request, response) => void response.json(index));
  for (const version of VERSIONS) {
    const document = buildOpenApi3(version, release);
    const path = `/openapi/v3${GROUP_PATH}/${version}`;
    app.get(path, (_request, response) => void response.json(document));
  }
}

function findHttpStatus(error: unknown): number | undefined {
  const hasStatus = typeof error === "object" && error !== null && "status" in error;
  return hasStatus && typeof error.status === "number" ? error.status : undefined;
}

function handleErrors(deps: Deps): ErrorRequestHandler {
  // Express recognizes error handlers by their four parameters.
  return (error: unknown, request, response, next) => {
    if (response.headersSent) {
      next(error);
      return;
    }
    const status = findHttpStatus(error);
    const answer =
      status === undefined
        ? toErrorAnswer(error)
        : toFailureAnswer({ code: status, message: messageOf(error) });
    const fields = { method: request.method, path: request.path, err: error };
    if (answer.code >= 500) deps.log.error("request failed", fields);
    send(response, answer);
  };
}

function serveAdmission(
  app: Express,
  deps: Deps,
  { webhooks }: Callers,
  readBody: readonly RequestHandler[],
): void {
  const isAuthenticated = (request: Request): boolean => webhooks?.isTrustedClient(request) ?? true;
  for (const webhook of ["mutate", "validate"] as const) {
    app.post(`/${webhook}`, rejectUnless(isAuthenticated), ...readBody, serveReview(deps, webhook));
  }
}

function serveGroup(
  app: Express,
  deps: Deps,
  callers: Callers,
  readBody: readonly RequestHandler[],
): void {
  const { frontProxy } = callers;
  app.use(
    ["/apis", "/openapi"],
    rejectUnless((request) => findRemoteUser(frontProxy, request) !== undefined),
    ...readBody,
  );
  serveDiscovery(app);
  serveOpenApi(app, deps);
  serveRoutes(app, deps, callers);
}

export function createApp(deps: Deps, callers: Callers): Express {
  const app = express();
  app.disable("x-powered-by");
  // KubeVirt's test suite requests this path with two slashes.
  app.get(/^\/{1,2}healthz$/, (_request, response) => {
    send(response, configHealth(true, deps.configVersion()));
  });
  const readBody = [reserveBody(callers), parseTextBody];
  serveAdmission(app, deps, callers, readBody);
  serveGroup(app, deps, callers, readBody);
  app.use((_request, response) => {
    const message = "the server could not find the requested resource";
    send(response, toFailureAnswer({ code: 404, message }));
  });
  app.use(handleErrors(deps));
  return app;
}
