// SPDX-License-Identifier: Apache-2.0
// Which requests does the panel pass on to the API server? Those that it needs: a page that has been taken over must not
// read secrets by them. Pure.
import type { HttpMethod } from "@patchbay/kube";

/** A request that is passed on. */
export interface PassedCall {
  readonly method: HttpMethod;
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
}

/** A name of an object or a namespace, as Kubernetes has them. Source: RFC 1123 */
const NAME = "[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?";
const VM_KINDS = "virtualmachines|virtualmachineinstances";
const SUBRESOURCES = "addinterface|removeinterface|start|stop|restart|migrate|pause|unpause|reset";
const REVIEWS = "selfsubjectaccessreviews|selfsubjectrulesreviews";

/** By method: what its paths look like. */
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

const METHODS = Object.keys(PATHS) as readonly HttpMethod[]; // its keys are exactly these
/** Parameters that are passed on. */
const PARAMETERS: ReadonlySet<string> = new Set(["dryRun", "fieldSelector", "interface", "limit"]);

function isMethod(text: string): text is HttpMethod {
  return METHODS.some((method) => method === text);
}

/**
 * The call that a request means, or undefined: the panel has no use for it. The path is taken as it was sent: nothing in
 * it is decoded or resolved.
 */
export function passedCall(method: string, target: string): PassedCall | undefined {
  const [path = "", search = ""] = target.split("?", 2);
  if (!isMethod(method) || !PATHS[method].some((pattern) => pattern.test(path))) return undefined;
  const query = [...new URLSearchParams(search)];
  if (query.some(([name]) => !PARAMETERS.has(name))) return undefined;
  return { method, path, query: Object.fromEntries(query) };
}

/** A stream of a guest. */
export interface PassedStream {
  readonly namespace: string;
  readonly name: string;
  readonly what: "console" | "vnc";
}

const STREAM = new RegExp(`^/streams/(${NAME})/(${NAME})/(console|vnc)$`);

/** The stream that a path names. */
export function passedStream(target: string): PassedStream | undefined {
  const [, namespace = "", name = "", what] = STREAM.exec(target) ?? [];
  return what === "console" || what === "vnc" ? { namespace, name, what } : undefined;
}
