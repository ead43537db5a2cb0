// SPDX-License-Identifier: Apache-2.0
import type { IncomingMessage, ServerResponse } from "node:http";
import { signalClose } from "@patchbay/base";
import type { Kind } from "../kinds/kind.ts";
import { isReview } from "../kinds/access/rbac.ts";
import { createObject } from "../verbs/create.ts";
import { type Call, type Reply, queueIfHeavy } from "../verbs/call.ts";
import type { VerbDeps } from "../verbs/deps.ts";
import { deleteCollection, deleteObject } from "../verbs/delete.ts";
import { getObject } from "../verbs/get.ts";
import { type KubeletDeps, serveLog, serveStream } from "../kubelet/connect.ts";
import { bindPod, evictPod, refusePortForward } from "../verbs/subresource/pod.ts";
import { listObjects } from "../verbs/list.ts";
import { checkWriteOptions } from "../verbs/options/write-options.ts";
import { patchObject } from "../verbs/patch.ts";
import { type ReviewDeps, answerReview } from "../verbs/review.ts";
import { finalizeNamespace, updateObject } from "../verbs/update.ts";
import { serveScale } from "../verbs/subresource/scale.ts";
import { type TokenRequestDeps, requestToken } from "../verbs/subresource/token-request.ts";
import { watchObjects } from "../verbs/watch/watch.ts";
import { findMissingFeature, explainMissingResource } from "../meta/unserved-groups.ts";
import { badRequest, methodNotAllowed, unknownPath } from "../meta/status.ts";
import { isWatchQuery } from "../auth/request-attributes.ts";
import type { User } from "../auth/user.ts";
import { chooseRepresentation, chooseStream, wantsPrettyPrint } from "./response/accept.ts";
import { readBody } from "./body.ts";
import type { Target } from "./target.ts";
import { setWarnings } from "./response/warnings.ts";

export type DispatchDeps = VerbDeps & ReviewDeps & TokenRequestDeps & KubeletDeps;

/** A request whose user is authorized, and whose body is not read yet. */
interface ResourceRequest {
  readonly target: Target;
  readonly query: URLSearchParams;
  readonly user: User;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

/** Handles a request. Returns undefined if the handler has already sent the response. */
type Handler = (
  call: Call,
  deps: DispatchDeps,
  resourceRequest: ResourceRequest,
) => Reply | Promise<Reply | undefined>;

const COLLECTION_HANDLERS: Readonly<Record<string, Handler>> = {
  GET: listObjects,
  POST: createObject,
  DELETE: deleteCollection,
};

const OBJECT_HANDLERS: Readonly<Record<string, Handler>> = {
  GET: getObject,
  PUT: (call, deps) => updateObject(call, deps, "main"),
  PATCH: (call, deps) => patchObject(call, deps, "main"),
  DELETE: deleteObject,
};

const STATUS_HANDLERS: Readonly<Record<string, Handler>> = {
  GET: getObject,
  PUT: (call, deps) => updateObject(call, deps, "status"),
  PATCH: (call, deps) => patchObject(call, deps, "status"),
};

const handleStream: Handler = async (call, deps, resourceRequest) => {
  await serveStream(call, deps, resourceRequest);
  return undefined;
};

const handleLog: Handler = async (call, deps, resourceRequest) => {
  await serveLog(call, deps, resourceRequest);
  return undefined;
};

const handleScale: Handler = (call, deps, { request }) =>
  serveScale(call, deps, request.method ?? "GET");

const SUBRESOURCE_HANDLERS: Readonly<Record<string, Readonly<Record<string, Handler>>>> = {
  status: STATUS_HANDLERS,
  attach: { GET: handleStream, POST: handleStream },
  exec: { GET: handleStream, POST: handleStream },
  log: { GET: handleLog },
  portforward: { GET: refusePortForward, POST: refusePortForward },
  binding: { POST: bindPod },
  eviction: { POST: evictPod },
  finalize: { PUT: finalizeNamespace },
  scale: { GET: handleScale, PUT: handleScale, PATCH: handleScale },
  token: { POST: requestToken },
};

const VERBS: Readonly<Record<string, string>> = {
  POST: "create",
  PUT: "update",
  PATCH: "patch",
};

function toVerb(method: string, target: Target, query: URLSearchParams): string {
  if (method === "GET") {
    const collectionVerb = isWatchQuery(query) ? "watch" : "list";
    return target.isWatch ? "watch" : target.name === "" ? collectionVerb : "get";
  }
  if (method === "DELETE") {
    return target.name === "" ? "deletecollection" : "delete";
  }
  return VERBS[method] ?? method.toLowerCase();
}

function findHandler(kind: Kind, target: Target, method: string): Handler {
  if (target.subresource !== "") {
    const subresource = kind.subresources.find(({ name }) => name === target.subresource);
    const handler = SUBRESOURCE_HANDLERS[target.subresource]?.[method];
    if (subresource === undefined) {
      throw unknownPath();
    }
    if (handler === undefined) {
      throw methodNotAllowed();
    }
    return handler;
  }
  const objectHandler = (target.name === "" ? COLLECTION_HANDLERS : OBJECT_HANDLERS)[method];
  if (objectHandler === undefined) {
    throw methodNotAllowed();
  }
  return objectHandler;
}

function checkScope(kind: Kind, target: Target): void {
  const lacksNamespace = kind.namespaced && target.namespace === "" && target.name !== "";
  if (lacksNamespace || (!kind.namespaced && target.namespace !== "")) {
    throw unknownPath();
  }
}

function checkVerb(kind: Kind, verb: string, target: Target): void {
  const isAllowed = target.subresource !== "" || kind.verbs.some((name) => name === verb);
  const needsNamespace = verb === "create" || verb === "deletecollection";
  const lacksNamespace = needsNamespace && kind.namespaced && target.namespace === "";
  if (lacksNamespace && kind.custom !== undefined) {
    throw unknownPath();
  }
  if (!isAllowed || lacksNamespace) {
    throw methodNotAllowed();
  }
}

async function toCall(kind: Kind, resourceRequest: ResourceRequest, verb: string): Promise<Call> {
  const { target, query, user, request, response } = resourceRequest;
  const { accept = "", "user-agent": userAgent = "" } = request.headers;
  const representation =
    verb === "watch"
      ? chooseStream(accept)
      : chooseRepresentation(accept, wantsPrettyPrint(query, userAgent));
  return {
    kind,
    namespace: target.namespace,
    name: target.name,
    subresource: target.subresource,
    query,
    user,
    representation,
    body:
      verb === "watch"
        ? { text: "", contentType: "" }
        : await readBody(request, target.subresource),
    closed: signalClose(response),
    warnings: kind.custom?.deprecationWarning === undefined ? [] : [kind.custom.deprecationWarning],
  };
}

export interface DispatchResult {
  readonly call: Call;
  readonly reply: Reply | undefined;
}

export async function dispatch(
  resourceRequest: ResourceRequest,
  deps: DispatchDeps,
): Promise<DispatchResult> {
  const { target, query, request, response } = resourceRequest;
  const kind = deps.registry.find(target.group, target.version, target.resource);
  if (kind === undefined) {
    const explanation = explainMissingResource(target.group, target.resource);
    throw explanation === undefined
      ? unknownPath(findMissingFeature(target.group))
      : badRequest(explanation);
  }
  const method = request.method ?? "GET";
  const verb = toVerb(method, target, query);
  checkScope(kind, target);
  const handler = findHandler(kind, target, method);
  checkVerb(kind, verb, target);
  const call = await toCall(kind, resourceRequest, verb);
  checkWriteOptions(verb, query, call.body.contentType);
  setWarnings(response, call.warnings);
  if (verb === "watch") {
    await watchObjects(call, deps, { response, stop: deps.stop });
    return { call, reply: undefined };
  }
  try {
    await queueIfHeavy(call, deps, call.body.text.length);
    const reply = isReview(kind)
      ? await answerReview(call, deps)
      : await handler(call, deps, resourceRequest);
    return { call, reply };
  } finally {
    setWarnings(response, call.warnings);
  }
}
