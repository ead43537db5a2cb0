// SPDX-License-Identifier: Apache-2.0
// What does a request want, in the words of roles? Source: Kubernetes apiserver RequestInfo.
import { pathSegmentFault } from "../meta/names.ts";
import type { AccessAttributes } from "./authorizer.ts";

/** A request, as far as rights depend on it. */
export interface RequestLine {
  readonly method: string;
  /** Without query. */
  readonly path: string;
  readonly query: URLSearchParams;
}

const VERBS: Readonly<Record<string, string>> = {
  POST: "create",
  GET: "get",
  HEAD: "get",
  PUT: "update",
  PATCH: "patch",
  DELETE: "delete",
};

/** Subresources of a namespace: what follows in the path is no resource in it. */
const NAMESPACE_SUBRESOURCES: readonly string[] = ["status", "finalize"];

const EXACT_NAME = /^metadata\.name==?([^=]*)$/;

function segmentsOf(path: string): readonly string[] {
  return path
    .replace(/^\/+|(?<!\/)\/+$/g, "")
    .split("/")
    .map((segment) => {
      try {
        return decodeURIComponent(segment);
      } catch {
        // A broken escape is a name that nothing has.
        return segment;
      }
    });
}

function ofPath({ method, path }: RequestLine): AccessAttributes {
  const nothing = { group: "", version: "", resource: "", subresource: "" };
  return { ...nothing, verb: method.toLowerCase(), namespace: "", name: "", path };
}

/** Group, version and the rest of a resource's path; undefined for other paths. */
function splitPath(
  segments: readonly string[],
): { group: string; version: string; rest: readonly string[] } | undefined {
  const [root, ...parts] = segments;
  if (root === "api" && parts.length >= 2) {
    return { group: "", version: parts[0] ?? "", rest: parts.slice(1) };
  }
  return root === "apis" && parts.length >= 3
    ? { group: parts[0] ?? "", version: parts[1] ?? "", rest: parts.slice(2) }
    : undefined;
}

/** The path below the version, from the resource on, and the namespace that it names. */
function withoutNamespace(rest: readonly string[]): {
  namespace: string;
  parts: readonly string[];
} {
  if (rest[0] !== "namespaces") {
    return { namespace: "", parts: rest };
  }
  const isInside = rest.length > 2 && !NAMESPACE_SUBRESOURCES.includes(rest[2] ?? "");
  return { namespace: rest[1] ?? "", parts: isInside ? rest.slice(2) : rest };
}

function isRead(method: string): boolean {
  return VERBS[method] === "get";
}

/** Whether a list is to be followed; only `false` and `0` mean no. Source: Kubernetes apimachinery Convert_Slice_string_To_bool. */
export function asksToWatch(query: URLSearchParams): boolean {
  return query.has("watch") && !/^(false|0)$/i.test(query.get("watch") ?? "");
}

/** The one name that a field selector leaves. */
function selectedName(query: URLSearchParams): string {
  const terms = (query.get("fieldSelector") ?? "").split(/(?<!\\),/);
  const name = terms.map((term) => EXACT_NAME.exec(term)?.[1] ?? "").find((text) => text !== "");
  return name !== undefined && pathSegmentFault(name) === undefined ? name : "";
}

/** Verb and name of a request without a name in its path. */
function ofCollection(
  method: string,
  query: URLSearchParams,
): Pick<AccessAttributes, "verb" | "name"> {
  if (isRead(method)) {
    return { verb: asksToWatch(query) ? "watch" : "list", name: selectedName(query) };
  }
  return { verb: method === "DELETE" ? "deletecollection" : (VERBS[method] ?? ""), name: "" };
}

/** What a request for a resource wants; `rest` is the path below the version. */
function ofResource(line: RequestLine, rest: readonly string[]) {
  const { method, query } = line;
  const { namespace, parts } = withoutNamespace(rest);
  const [resource = "", name = "", subresource = ""] = parts;
  const found = name === "" ? ofCollection(method, query) : { verb: VERBS[method] ?? "", name };
  return { ...found, resource, subresource, namespace, path: "" };
}

/** What the request wants. */
export function attributesOf(line: RequestLine): AccessAttributes {
  const split = splitPath(segmentsOf(line.path));
  if (split === undefined) {
    return ofPath(line);
  }
  const { group, version, rest } = split;
  const isPrefixed = rest[0] === "watch" && rest.length > 1;
  const asked = { group, version, ...ofResource(line, isPrefixed ? rest.slice(1) : rest) };
  // What is watched is the resource itself, whatever follows in the path.
  return isPrefixed && isRead(line.method) ? { ...asked, subresource: "", verb: "watch" } : asked;
}
