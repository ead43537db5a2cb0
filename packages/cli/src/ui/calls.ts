// SPDX-License-Identifier: Apache-2.0
// Requests that the panel forwards to the API server. Other requests are rejected, so that a compromised page cannot read secrets.
import type { HttpMethod } from "@patchbay/kube";

export interface ForwardedCall {
  readonly method: HttpMethod;
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
}

/** Pattern of the name of an object or namespace. Source: RFC 1123 */
const NAME = "[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?";
const VM_KINDS = "virtualmachines|virtualmachineinstances";
const SUBRESOURCES =
  "addinterface|removeinterface|start|stop|restart|migrate|pause|unpause|reset|softreboot";
const REVIEWS = "selfsubjectaccessreviews|selfsubjectrulesreviews";

const PATHS: Readonly<Record<HttpMethod, readonly RegExp[]>> = {
  GET: [
    new RegExp(`^/apis/kubevirt\\.io/v1/namespaces/${NAME}/(?:${VM_KINDS})/${NAME}$`),
    new RegExp(`^/api/v1/namespaces/${NAME}/events$`),
    new RegExp(
      `^/apis/subresources\\.kubevirt\\.io/v1/namespaces/${NAME}/virtualmachineinstances/${NAME}/(?:doctor|interfacetraffic)$`,
    ),
  ],
  PUT: [
    new RegExp(
      `^/apis/subresources\\.kubevirt\\.io/v1/namespaces/${NAME}/(?:${VM_KINDS})/${NAME}/(?:${SUBRESOURCES})$`,
    ),
  ],
  PATCH: [new RegExp(`^/apis/kubevirt\\.io/v1/namespaces/${NAME}/(?:${VM_KINDS})/${NAME}$`)],
  POST: [
    new RegExp(`^/apis/kubevirt\\.io/v1/namespaces/${NAME}/virtualmachines$`),
    new RegExp(`^/api/v1/namespaces/${NAME}/(?:secrets|persistentvolumeclaims)$`),
    new RegExp(`^/apis/authorization\\.k8s\\.io/v1/(?:${REVIEWS})$`),
  ],
  DELETE: [new RegExp(`^/apis/kubevirt\\.io/v1/namespaces/${NAME}/(?:${VM_KINDS})/${NAME}$`)],
};

const METHODS = Object.keys(PATHS) as readonly HttpMethod[];
const PARAMETERS: ReadonlySet<string> = new Set(["dryRun", "fieldSelector", "interface", "limit"]);

function isMethod(text: string): text is HttpMethod {
  return METHODS.some((method) => method === text);
}

/**
 * Returns the request to forward; undefined if the panel never sends such a request. Rejects all paths with encoded
 * characters, because the API server could decode them to a forbidden path.
 */
export function toForwardedCall(method: string, target: string): ForwardedCall | undefined {
  const [path = "", search = ""] = target.split("?", 2);
  if (!isMethod(method) || !PATHS[method].some((pattern) => pattern.test(path))) return undefined;
  const query = [...new URLSearchParams(search)];
  if (query.some(([name]) => !PARAMETERS.has(name))) return undefined;
  return { method, path, query: Object.fromEntries(query) };
}

export interface ForwardedStream {
  readonly namespace: string;
  readonly name: string;
  readonly what: "console" | "vnc";
}

const STREAM = new RegExp(`^/streams/(${NAME})/(${NAME})/(console|vnc)$`);

export function toForwardedStream(target: string): ForwardedStream | undefined {
  const [, namespace = "", name = "", what] = STREAM.exec(target) ?? [];
  return what === "console" || what === "vnc" ? { namespace, name, what } : undefined;
}
