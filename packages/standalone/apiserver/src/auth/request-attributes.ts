// SPDX-License-Identifier: Apache-2.0
// Attributes of requests, from their method, path and query. Source: Kubernetes apiserver RequestInfo.
import { pathSegmentFault } from "../meta/names.ts";
import type { AccessAttributes } from "./authorizer.ts";

export interface RequestLine {
  readonly method: string;
  /** Path without the query. */
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

/** Subresources of a Namespace. Other path segments after a namespace are resources in the namespace. */
const NAMESPACE_SUBRESOURCES: readonly string[] = ["status", "finalize"];

const EXACT_NAME = /^metadata\.name==?([^=]*)$/;

function splitSegments(path: string): readonly string[] {
  return path
    .replace(/^\/+|(?<!\/)\/+$/g, "")
    .split("/")
    .map((segment) => {
      try {
        return decodeURIComponent(segment);
      } catch {
        // A segment with an invalid escape remains unchanged, and matches no object.
        return segment;
      }
    });
}

function nonResourceAttributes({ method, path }: RequestLine): AccessAttributes {
  const empty = { group: "", version: "", resource: "", subresource: "" };
  return { ...empty, verb: method.toLowerCase(), namespace: "", name: "", path };
}

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

function splitNamespace(rest: readonly string[]): {
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

/** Returns whether the query has `watch` with a value other than `false` and `0`. Source: apimachinery Convert_Slice_string_To_bool. */
export function isWatchQuery(query: URLSearchParams): boolean {
  return query.has("watch") && !/^(false|0)$/i.test(query.get("watch") ?? "");
}

function parseSelectedName(query: URLSearchParams): string {
  const terms = (query.get("fieldSelector") ?? "").split(/(?<!\\),/);
  const name = terms.map((term) => EXACT_NAME.exec(term)?.[1] ?? "").find((text) => text !== "");
  return name !== undefined && pathSegmentFault(name) === undefined ? name : "";
}

function collectionAttributes(
  method: string,
  query: URLSearchParams,
): Pick<AccessAttributes, "verb" | "name"> {
  if (isRead(method)) {
    return { verb: isWatchQuery(query) ? "watch" : "list", name: parseSelectedName(query) };
  }
  return { verb: method === "DELETE" ? "deletecollection" : (VERBS[method] ?? ""), name: "" };
}

function resourceAttributes(line: RequestLine, rest: readonly string[]) {
  const { method, query } = line;
  const { namespace, parts } = splitNamespace(rest);
  const [resource = "", name = "", subresource = ""] = parts;
  const verbAndName =
    name === "" ? collectionAttributes(method, query) : { verb: VERBS[method] ?? "", name };
  return { ...verbAndName, resource, subresource, namespace, path: "" };
}

export function toAccessAttributes(line: RequestLine): AccessAttributes {
  const split = splitPath(splitSegments(line.path));
  if (split === undefined) {
    return nonResourceAttributes(line);
  }
  const { group, version, rest } = split;
  const isPrefixed = rest[0] === "watch" && rest.length > 1;
  const attributes = {
    group,
    version,
    ...resourceAttributes(line, isPrefixed ? rest.slice(1) : rest),
  };
  // A read below `/watch/` is a watch of the resource, never of a subresource.
  return isPrefixed && isRead(line.method)
    ? { ...attributes, subresource: "", verb: "watch" }
    : attributes;
}
