// SPDX-License-Identifier: Apache-2.0
// What does a request do to which resource? Said without names of objects, so that there are few answers.

/** For counting. Source: Kubernetes endpoints/request RequestInfo. */
export interface RequestKind {
  readonly verb: "get" | "list" | "watch" | "create" | "update" | "patch" | "delete";
  /** Plural, with its subresource: `pods/status`. `none` where the path is no resource's. */
  readonly resource: string;
}

/** What a request is known by. */
interface Asked {
  readonly method: "GET" | keyof typeof VERBS;
  readonly path: string;
  readonly query?: Readonly<Record<string, string | undefined>>;
}

const VERBS = { POST: "create", PUT: "update", PATCH: "patch", DELETE: "delete" } as const;

/** Parts of a path behind group and version, which start at the third or the fourth; none of other paths. */
function partsOf(path: string): readonly string[] {
  const [, root, ...rest] = path.split("/");
  if (root === "api") return rest.slice(1);
  return root === "apis" ? rest.slice(2) : [];
}

function isInNamespace([first, , third]: readonly string[]): boolean {
  return (
    first === "namespaces" && third !== undefined && third !== "finalize" && third !== "status"
  );
}

/** The kind of a request, by its method, path and query. */
export function kindOfRequest(request: Asked): RequestKind {
  const parts = partsOf(request.path);
  const [plural = "none", name, subresource] = isInNamespace(parts) ? parts.slice(2) : parts;
  const resource = subresource === undefined ? plural : `${plural}/${subresource}`;
  if (request.method !== "GET") return { verb: VERBS[request.method], resource };
  if (request.query?.["watch"] !== undefined) return { verb: "watch", resource };
  return { verb: name === undefined && plural !== "none" ? "list" : "get", resource };
}
