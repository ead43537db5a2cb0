// SPDX-License-Identifier: Apache-2.0
// Parser for URLs of stream requests. Source: KubeVirt pkg/virt-api/api.go.
import { names } from "@patchbay/api";
import { CAPTURE, isGuestStream, PRESERVE_SESSION, type StreamRequest } from "@patchbay/core/guest";
import { VERSIONS } from "../routes/table.ts";

export interface ForwardRequest {
  readonly port: number;
  readonly protocol: "tcp" | "udp";
}

/** Target of a stream. `name` is the name of the VMI and of its VM. */
export type StreamTarget = {
  readonly namespace: string;
  readonly name: string;
  readonly isVm: boolean;
} & (
  | ({ readonly kind: "guest" } & StreamRequest)
  | ({ readonly kind: "forward" } & ForwardRequest)
  /** `query` is the query string of the URL, which describes the capture. */
  | { readonly kind: "capture"; readonly query: string }
);

/** Pattern of a name. It matches neither the path segment `..` nor percent-encoding. */
const NAME_PATTERN = "([a-z0-9][a-z0-9.-]*)";
const PATH_PATTERN = new RegExp(
  `^/apis/${names.SUBRESOURCES_GROUP}/(?:${VERSIONS.join("|")})/namespaces/${NAME_PATTERN}/(virtualmachines|virtualmachineinstances)/${NAME_PATTERN}/(.+)$`,
);
const PORT_MAX = 65_535;

function parseForward(parts: readonly string[]): ForwardRequest | undefined {
  const [port = "", protocol = "tcp"] = parts;
  if (parts.length > 2 || !/^[1-9]\d*$/.test(port) || Number(port) > PORT_MAX) return undefined;
  return protocol === "tcp" || protocol === "udp" ? { port: Number(port), protocol } : undefined;
}

interface ParsedPath {
  readonly target: Pick<StreamTarget, "namespace" | "name" | "isVm">;
  readonly subresource: string;
}

/** Parses the path exactly as the API server authorized it. A URL parser would resolve `..`, and the result could leave the namespace. */
function parsePath(path: string): ParsedPath | undefined {
  const match = PATH_PATTERN.exec(path);
  if (match === null) return undefined;
  const [, namespace = "", resource, name = "", subresource = ""] = match;
  return { target: { namespace, name, isVm: resource === "virtualmachines" }, subresource };
}

export function parseStreamUrl(url: string): StreamTarget | undefined {
  const [path = "", query = ""] = url.split(/\?(.*)/s);
  const parsed = parsePath(path);
  if (parsed === undefined) return undefined;
  const { target, subresource } = parsed;
  const [subresourceName, ...parts] = subresource.split("/");
  if (subresourceName === "portforward") {
    const forward = parseForward(parts);
    return forward === undefined ? undefined : { ...target, kind: "forward", ...forward };
  }
  if (target.isVm) return undefined;
  if (subresource === CAPTURE) return { ...target, kind: "capture", query };
  if (!isGuestStream(subresource)) return undefined;
  const preservesSession = new URLSearchParams(query).get(PRESERVE_SESSION) === "true";
  return { ...target, kind: "guest", stream: subresource, preservesSession };
}
