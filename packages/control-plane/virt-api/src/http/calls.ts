// SPDX-License-Identifier: Apache-2.0
// Subresource requests: identity of their callers, and responses with Kubernetes `metav1.Status` bodies.
import type { IncomingMessage } from "node:http";
import type { ClientAuthority } from "@patchbay/daemon";
import { PODS, names, type ResourceType } from "@patchbay/api";
import type { Cause, KubeObject, StatusBody } from "@patchbay/api/kubernetes";
import type { Store } from "@patchbay/core/interfaces";
import type { HandlerAnswer } from "../handlers/client.ts";
import { CATALOGUE, isAppError, type AppError } from "@patchbay/base";
import type { Refusal } from "@patchbay/core/requests";

/** User of a request. Source: Kubernetes authentication.k8s.io/v1 UserInfo. */
export interface User {
  readonly name: string;
  readonly groups: readonly string[];
  readonly extra?: Readonly<Record<string, readonly string[]>>;
}

// Headers of the front proxy. Source: Kubernetes "Configure the Aggregation Layer".

const USER_HEADER = "x-remote-user";
const GROUP_HEADER = "x-remote-group";
/** Prefix of headers with claims. Claim names are URL-encoded. Source: Kubernetes, default of requestheader-extra-headers-prefix. */
const EXTRA_PREFIX = "x-remote-extra-";

function parseClaimName(header: string): string | undefined {
  try {
    return decodeURIComponent(header.slice(EXTRA_PREFIX.length));
  } catch {
    return undefined;
  }
}

function parseExtra(headers: IncomingMessage["headersDistinct"]): Pick<User, "extra"> {
  const claims = Object.entries(headers).flatMap(([header, values = []]) => {
    const claim = header.startsWith(EXTRA_PREFIX) ? parseClaimName(header) : undefined;
    return claim === undefined ? [] : [[claim, values] as const];
  });
  return claims.length === 0 ? {} : { extra: Object.fromEntries(claims) };
}

/** Returns the user in the front proxy's headers; undefined if another client sent the request or the headers contain no user. */
export function findRemoteUser(
  frontProxy: ClientAuthority | undefined,
  request: Pick<IncomingMessage, "socket" | "headersDistinct">,
): User | undefined {
  if (frontProxy?.isTrustedClient(request) !== true) return undefined;
  const { headersDistinct } = request;
  const [name = ""] = headersDistinct[USER_HEADER] ?? [];
  if (name === "") return undefined;
  return { name, groups: headersDistinct[GROUP_HEADER] ?? [], ...parseExtra(headersDistinct) };
}

export interface TokenPod {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

/** Finds the node of a pod. Returns undefined if the pod does not exist or is not scheduled. */
export type FindPodNode = (pod: TokenPod) => Promise<string | undefined>;

/** Maximum number of cached virt-handler pods: one per node of a large cluster. Source: Kubernetes "Considerations for large clusters". */
const CACHED_PODS_MAX = 5000;

/** Creates a lookup that caches nodes by pod uid, because a pod never changes its node. */
export function createPodNodeLookup(store: Store): FindPodNode {
  const nodeByUid = new Map<string, string>();
  return async ({ uid, ...key }) => {
    const cached = nodeByUid.get(uid);
    if (cached !== undefined) return cached;
    const pod = await store.find(PODS, key);
    const node = pod?.metadata.uid === uid ? pod.spec.nodeName : undefined;
    if (node === undefined || node === "") return undefined;
    nodeByUid.set(uid, node);
    const [oldest] = nodeByUid.keys();
    if (nodeByUid.size > CACHED_PODS_MAX && oldest !== undefined) nodeByUid.delete(oldest);
    return node;
  };
}

/** User name that all virt-handlers share. A claim or a group of the user identifies the node. */
export const VIRT_HANDLER_ACCOUNT: string = `${names.SERVICE_ACCOUNT_PREFIX}virt-handler`;
/** Token claims with the name and UID of the pod. Source: Kubernetes serviceaccount claims, since 1.21. */
const POD_CLAIMS = {
  name: "authentication.kubernetes.io/pod-name",
  uid: "authentication.kubernetes.io/pod-uid",
} as const;
/** Token claim with the node's name. Older servers set only pod claims. Source: Kubernetes ServiceAccountTokenPodNodeInfo, since 1.30. */
const NODE_CLAIM = "authentication.kubernetes.io/node-name";

export interface PodLookup {
  readonly findPodNode: FindPodNode;
}

function listNamedNodes({ groups, extra }: User): readonly string[] {
  const prefix = names.NODE_GROUP_PREFIX;
  const nodeGroups = groups.filter((group) => group.startsWith(prefix));
  return [...(extra?.[NODE_CLAIM] ?? []), ...nodeGroups.map((group) => group.slice(prefix.length))];
}

/** Returns the pod in the token's claims; undefined if the claims contain no pod or several pods. */
function findTokenPod({ extra }: User): TokenPod | undefined {
  const [name, ...otherNames] = extra?.[POD_CLAIMS.name] ?? [];
  const [uid, ...otherUids] = extra?.[POD_CLAIMS.uid] ?? [];
  const isUnique = otherNames.length === 0 && otherUids.length === 0;
  return name === undefined || uid === undefined || !isUnique
    ? undefined
    : { namespace: names.SERVICES_NAMESPACE, name, uid };
}

/** Returns the virt-handler's node; undefined if the credentials name several nodes, or neither a node nor a scheduled pod. */
export async function findAgentNode(
  user: User,
  { findPodNode }: PodLookup,
): Promise<string | undefined> {
  const nodes = listNamedNodes(user);
  if (nodes.length > 0) return nodes.length === 1 ? nodes[0] : undefined;
  const pod = findTokenPod(user);
  return pod === undefined ? undefined : findPodNode(pod);
}

/** Subresource request. `namespace` and `name` identify the VM or VMI in the path. */
export interface Call {
  readonly namespace: string;
  readonly name: string;
  readonly user: User;
  /** True for `?dryRun=All`, or for `dryRun: ["All"]` in the body. */
  readonly dryRun: boolean;
  readonly query: URLSearchParams;
  /** Parsed JSON; undefined if the body is empty. */
  readonly body: unknown;
}

/** Handles a call. toErrorAnswer converts thrown errors to responses. */
export type CallHandler = (call: Call) => Promise<Answer>;

export interface Answer {
  readonly code: number;
  readonly body: unknown;
  /** Media type of a binary body; unset for JSON. */
  readonly type?: string;
}

export interface ObjectRef {
  readonly type: ResourceType<KubeObject>;
  readonly name: string;
}

/** Reason by HTTP status. Source: Kubernetes metav1.StatusReason. */
const STATUS_REASONS: Readonly<Record<number, string>> = {
  400: "BadRequest",
  401: "Unauthorized",
  403: "Forbidden",
  404: "NotFound",
  405: "MethodNotAllowed",
  409: "Conflict",
  413: "RequestEntityTooLarge",
  415: "UnsupportedMediaType",
  422: "Invalid",
  429: "TooManyRequests",
  503: "ServiceUnavailable",
  504: "Timeout",
};

interface Failure {
  readonly code: number;
  readonly message: string;
  readonly reason?: string;
  readonly objectRef?: ObjectRef;
  readonly causes?: readonly Cause[];
}

function buildDetails(failure: Failure): StatusBody["details"] {
  const { objectRef, causes = [] } = failure;
  const details = {
    ...(objectRef === undefined
      ? {}
      : { name: objectRef.name, group: objectRef.type.group, kind: objectRef.type.resource }),
    ...(causes.length === 0 ? {} : { causes }),
  };
  return Object.keys(details).length === 0 ? undefined : details;
}

export function toFailureAnswer(failure: Failure): Answer {
  const details = buildDetails(failure);
  const body: StatusBody = {
    kind: "Status",
    apiVersion: "v1",
    metadata: {},
    status: "Failure",
    message: failure.message,
    reason: failure.reason ?? STATUS_REASONS[failure.code] ?? "InternalError",
    ...(details === undefined ? {} : { details }),
    code: failure.code,
  };
  return { code: failure.code, body };
}

export function toRefusalAnswer(refusal: Refusal, objectRef: ObjectRef): Answer {
  return toFailureAnswer({ ...refusal, objectRef });
}

/** Builds a 404 response with the message that the API server uses for a missing object. */
export function toNotFoundAnswer(objectRef: ObjectRef): Answer {
  const { group, resource } = objectRef.type;
  return toFailureAnswer({
    code: 404,
    message: `${resource}${group === "" ? "" : `.${group}`} "${objectRef.name}" not found`,
    objectRef,
  });
}

export function toNodeAnswer({ code, body }: HandlerAnswer, objectRef: ObjectRef): Answer {
  const { message } = body;
  const text = typeof message === "string" ? message : "the node gave no reason";
  return toFailureAnswer({ code, message: text, objectRef });
}

export function toConflictAnswer(objectRef: ObjectRef, text: string): Answer {
  const conflict = `${objectRef.type.resource} "${objectRef.name}" is being changed by other clients; try again`;
  const message = text === "" ? conflict : `${conflict} (${text})`;
  return toFailureAnswer({ code: 409, message, objectRef });
}

function toSuccessAnswer(code: number, message: string): Answer {
  const body: StatusBody = {
    kind: "Status",
    apiVersion: "v1",
    metadata: {},
    status: "Success",
    message,
    code,
  };
  return { code, body };
}

/** Builds a 202 response for a requested change that is not completed. */
export function toAcceptedAnswer(message: string): Answer {
  return toSuccessAnswer(202, message);
}

export function toOkAnswer(message: string): Answer {
  return toSuccessAnswer(200, message);
}

/** Parses the causes of an error, which the Kubernetes client prints as lines `FIELD: MESSAGE`. */
function listCauses(error: AppError): readonly Cause[] {
  const { causes } = error.details;
  if (typeof causes !== "string" || causes === "") return [];
  return causes.split("\n").map((line) => {
    const colon = line.indexOf(": ");
    const [field, message] = colon < 0 ? ["", line] : [line.slice(0, colon), line.slice(colon + 2)];
    return { reason: "FieldValueInvalid", field, message };
  });
}

/** Converts an error to a response. Errors of the API server retain their status. */
export function toErrorAnswer(error: unknown): Answer {
  if (!isAppError(error)) return toFailureAnswer({ code: 500, message: "internal error" });
  const { status, message } = error.details;
  const isForwarded = error.code.startsWith("KUBE_") && typeof status === "number";
  return toFailureAnswer({
    code: isForwarded ? status : CATALOGUE[error.code].http,
    message: isForwarded && typeof message === "string" ? message : error.message,
    causes: listCauses(error),
  });
}
