// SPDX-License-Identifier: Apache-2.0
// From a request for a resource to the verb that serves it.
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Kind } from "../kinds/kind.ts";
import { isReview } from "../kinds/access/reviews.ts";
import { createObject } from "../verbs/create.ts";
import { type Call, type Reply, queueIfHeavy } from "../verbs/call.ts";
import type { VerbDeps } from "../verbs/deps.ts";
import { deleteCollection } from "../verbs/delete-collection.ts";
import { deleteObject } from "../verbs/delete.ts";
import { getObject } from "../verbs/get.ts";
import { type KubeletDeps, serveStream, serveLog } from "../kubelet/connect.ts";
import { refusePortForward } from "../verbs/subresource/port-forward.ts";
import { listObjects } from "../verbs/list.ts";
import { checkWriteOptions } from "../verbs/options/write-options.ts";
import { patchObject } from "../verbs/patch.ts";
import { type ReviewDeps, answerReview } from "../verbs/review/review.ts";
import { bindPod } from "../verbs/subresource/binding.ts";
import { evictPod } from "../verbs/subresource/eviction.ts";
import { finalizeNamespace } from "../verbs/subresource/finalize.ts";
import { serveScale } from "../verbs/subresource/scale.ts";
import { type TokenRequestDeps, requestToken } from "../verbs/subresource/token-request.ts";
import { updateObject } from "../verbs/update.ts";
import { watchObjects } from "../verbs/watch/watch.ts";
import { chooseRepresentation, chooseStream, isForPeople } from "./answer/accept.ts";
import { readBody } from "./body.ts";
import { absentFeature, absentResource } from "../meta/absent-groups.ts";
import { badRequest, methodNotAllowed, unknownPath } from "../meta/status.ts";
import type { Target } from "./target.ts";
import { setWarnings } from "./answer/warnings.ts";
import { asksToWatch } from "../auth/request-attributes.ts";
import type { User } from "../auth/user.ts";

/** What all verbs together are given. */
export type DispatchDeps = VerbDeps & ReviewDeps & TokenRequestDeps & KubeletDeps;

/** One request for a resource whose user is known and may ask for it; its body is not read yet. */
interface ResourceRequest {
  readonly target: Target;
  readonly query: URLSearchParams;
  readonly user: User;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

/** Serves a call; undefined where it has answered by itself. */
type Serve = (
  call: Call,
  deps: DispatchDeps,
  given: ResourceRequest,
) => Reply | Promise<Reply | undefined>;

const COLLECTION: Readonly<Record<string, Serve>> = {
  GET: listObjects,
  POST: createObject,
  DELETE: deleteCollection,
};

const OBJECT: Readonly<Record<string, Serve>> = {
  GET: getObject,
  PUT: (call, deps) => updateObject(call, deps, "main"),
  PATCH: (call, deps) => patchObject(call, deps, "main"),
  DELETE: deleteObject,
};

const STATUS: Readonly<Record<string, Serve>> = {
  GET: getObject,
  PUT: (call, deps) => updateObject(call, deps, "status"),
  PATCH: (call, deps) => patchObject(call, deps, "status"),
};

const serveStreamed: Serve = async (call, deps, given) => {
  await serveStream(call, deps, given);
  return undefined;
};

const serveLogged: Serve = async (call, deps, given) => {
  await serveLog(call, deps, given);
  return undefined;
};

const serveScaled: Serve = (call, deps, { request }) =>
  serveScale(call, deps, request.method ?? "GET");

const SUBRESOURCES: Readonly<Record<string, Readonly<Record<string, Serve>>>> = {
  status: STATUS,
  attach: { GET: serveStreamed, POST: serveStreamed },
  exec: { GET: serveStreamed, POST: serveStreamed },
  log: { GET: serveLogged },
  portforward: { GET: refusePortForward, POST: refusePortForward },
  binding: { POST: bindPod },
  eviction: { POST: evictPod },
  finalize: { PUT: finalizeNamespace },
  scale: { GET: serveScaled, PUT: serveScaled, PATCH: serveScaled },
  token: { POST: requestToken },
};

const VERB_OF: Readonly<Record<string, string>> = {
  POST: "create",
  PUT: "update",
  PATCH: "patch",
};

/** The verb as discovery and authorization name it. */
function verbOf(method: string, target: Target, query: URLSearchParams): string {
  if (method === "GET") {
    const listing = asksToWatch(query) ? "watch" : "list";
    return target.watch ? "watch" : target.name === "" ? listing : "get";
  }
  if (method === "DELETE") {
    return target.name === "" ? "deletecollection" : "delete";
  }
  return VERB_OF[method] ?? method.toLowerCase();
}

function serverOf(kind: Kind, target: Target, method: string): Serve {
  if (target.subresource !== "") {
    const subresource = kind.subresources.find(({ name }) => name === target.subresource);
    const serve = SUBRESOURCES[target.subresource]?.[method];
    if (subresource === undefined) {
      throw unknownPath();
    }
    if (serve === undefined) {
      throw methodNotAllowed();
    }
    return serve;
  }
  const serve = (target.name === "" ? COLLECTION : OBJECT)[method];
  if (serve === undefined) {
    throw methodNotAllowed();
  }
  return serve;
}

function checkScope(kind: Kind, target: Target): void {
  const missing = kind.namespaced && target.namespace === "" && target.name !== "";
  if (missing || (!kind.namespaced && target.namespace !== "")) {
    throw unknownPath();
  }
}

function checkVerb(kind: Kind, verb: string, target: Target): void {
  const allowed = target.subresource !== "" || kind.verbs.some((name) => name === verb);
  const collective = verb === "create" || verb === "deletecollection";
  const nowhere = collective && kind.namespaced && target.namespace === "";
  if (nowhere && kind.custom !== undefined) {
    throw unknownPath();
  }
  if (!allowed || nowhere) {
    throw methodNotAllowed();
  }
}

async function toCall(kind: Kind, given: ResourceRequest, verb: string): Promise<Call> {
  const { target, query, user, request } = given;
  const { accept = "", "user-agent": userAgent = "" } = request.headers;
  const representation =
    verb === "watch"
      ? chooseStream(accept)
      : chooseRepresentation(accept, isForPeople(query, userAgent));
  return {
    kind,
    namespace: target.namespace,
    name: target.name,
    subresource: target.subresource,
    query,
    user,
    representation,
    body: verb === "watch" ? { text: "", contentType: "" } : await readBody(request),
    warnings: kind.custom?.deprecationWarning === undefined ? [] : [kind.custom.deprecationWarning],
  };
}

/** A call and its answer; no answer where the verb streamed it itself. */
export interface Served {
  readonly call: Call;
  readonly reply: Reply | undefined;
}

/** Serves a request for a resource. Throws StatusErrors. */
export async function dispatch(given: ResourceRequest, deps: DispatchDeps): Promise<Served> {
  const { target, query, request, response } = given;
  const kind = deps.registry.find(target.group, target.version, target.resource);
  if (kind === undefined) {
    const refusal = absentResource(target.group, target.resource);
    throw refusal === undefined ? unknownPath(absentFeature(target.group)) : badRequest(refusal);
  }
  const method = request.method ?? "GET";
  const verb = verbOf(method, target, query);
  checkScope(kind, target);
  const serve = serverOf(kind, target, method);
  checkVerb(kind, verb, target);
  const call = await toCall(kind, given, verb);
  checkWriteOptions(verb, query, call.body.contentType);
  setWarnings(response, call.warnings);
  if (verb === "watch") {
    await watchObjects(call, deps, { response, stop: deps.stop });
    return { call, reply: undefined };
  }
  try {
    await queueIfHeavy(call, deps, call.body.text.length);
    const reply = isReview(kind) ? await answerReview(call, deps) : await serve(call, deps, given);
    return { call, reply };
  } finally {
    setWarnings(response, call.warnings);
  }
}
