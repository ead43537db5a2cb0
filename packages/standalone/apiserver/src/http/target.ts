// SPDX-License-Identifier: Apache-2.0
// Request targets, parsed from paths. Source: Kubernetes apiserver RequestInfo.

/** Object or collection that a path identifies. Missing parts are empty. */
export interface Target {
  readonly group: string;
  readonly version: string;
  readonly namespace: string;
  readonly resource: string;
  readonly name: string;
  readonly subresource: string;
  /** Whether the path has the deprecated prefix `/watch`. */
  readonly isWatch: boolean;
}

/** Returns the decoded segments, or undefined if a segment has an invalid escape or an escaped slash. */
function decodeSegments(path: string): string[] | undefined {
  try {
    const segments = path.split("/").slice(1).map(decodeURIComponent);
    return segments.some((part) => part.includes("/")) ? undefined : segments;
  } catch {
    return undefined;
  }
}

function splitGroup(
  segments: readonly string[],
): { group: string; version: string; rest: readonly string[] } | undefined {
  if (segments[0] === "api" && segments.length > 2) {
    return { group: "", version: segments[1] ?? "", rest: segments.slice(2) };
  }
  return segments[0] === "apis" && segments.length > 3
    ? { group: segments[1] ?? "", version: segments[2] ?? "", rest: segments.slice(3) }
    : undefined;
}

function isInNamespace(segments: readonly string[]): boolean {
  const isSubresource =
    segments.length === 3 && (segments[2] === "status" || segments[2] === "finalize");
  return segments[0] === "namespaces" && segments.length > 2 && !isSubresource;
}

export function parseTarget(path: string): Target | undefined {
  const split = splitGroup(decodeSegments(path.replace(/\/$/, "")) ?? []);
  if (split === undefined) {
    return undefined;
  }
  const { group, version } = split;
  const isWatch = split.rest[0] === "watch" && split.rest.length > 1;
  const segments = isWatch ? split.rest.slice(1) : split.rest;
  const namespace = isInNamespace(segments) ? (segments[1] ?? "") : "";
  const [resource = "", name = "", ...subresource] = isInNamespace(segments)
    ? segments.slice(2)
    : segments;
  return { group, version, namespace, resource, name, subresource: subresource.join("/"), isWatch };
}
