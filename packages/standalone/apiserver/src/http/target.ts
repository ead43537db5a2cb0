// SPDX-License-Identifier: Apache-2.0
// Source: Kubernetes apiserver RequestInfo.

/** Missing parts are empty. */
export interface Target {
  readonly group: string;
  readonly version: string;
  readonly namespace: string;
  readonly resource: string;
  readonly name: string;
  readonly subresource: string;
  /** The path itself requests a watch (deprecated form). */
  readonly watch: boolean;
}

/** Returns undefined if a segment has an invalid escape or an escaped slash. */
function decodeSegments(path: string): string[] | undefined {
  try {
    const parts = path.split("/").slice(1).map(decodeURIComponent);
    return parts.some((part) => part.includes("/")) ? undefined : parts;
  } catch {
    return undefined;
  }
}

function splitGroup(
  parts: readonly string[],
): { group: string; version: string; rest: readonly string[] } | undefined {
  if (parts[0] === "api" && parts.length > 2) {
    return { group: "", version: parts[1] ?? "", rest: parts.slice(2) };
  }
  return parts[0] === "apis" && parts.length > 3
    ? { group: parts[1] ?? "", version: parts[2] ?? "", rest: parts.slice(3) }
    : undefined;
}

function isInNamespace(rest: readonly string[]): boolean {
  const isSubresource = rest.length === 3 && (rest[2] === "status" || rest[2] === "finalize");
  return rest[0] === "namespaces" && rest.length > 2 && !isSubresource;
}

export function parseTarget(path: string): Target | undefined {
  const split = splitGroup(decodeSegments(path.replace(/\/$/, "")) ?? []);
  if (split === undefined) {
    return undefined;
  }
  const { group, version } = split;
  const watch = split.rest[0] === "watch" && split.rest.length > 1;
  const rest = watch ? split.rest.slice(1) : split.rest;
  const namespace = isInNamespace(rest) ? (rest[1] ?? "") : "";
  const [resource = "", name = "", ...subresource] = isInNamespace(rest) ? rest.slice(2) : rest;
  return { group, version, namespace, resource, name, subresource: subresource.join("/"), watch };
}
