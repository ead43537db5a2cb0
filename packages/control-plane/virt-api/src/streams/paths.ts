// SPDX-License-Identifier: Apache-2.0
// Parses the URL of a stream request. Source: KubeVirt pkg/virt-api/api.go.
import { names } from "@patchbay/api";
import { CAPTURE, isGuestStream, PRESERVE_SESSION, type StreamRequest } from "@patchbay/core/guest";
import { VERSIONS } from "../routes/table.ts";

export interface ForwardRequest {
  /** Port number from 1 to 65535. */
  readonly port: number;
  readonly protocol: "tcp" | "udp";
}

/** Target of a stream. A VM has the same name as its VMI. */
export type StreamTarget = {
  readonly namespace: string;
  readonly name: string;
  readonly isVm: boolean;
} & (
  | ({ readonly kind: "guest" } & StreamRequest)
  | ({ readonly kind: "forward" } & ForwardRequest)
  /** `query` is the unparsed query, which describes the capture. */
  | { readonly kind: "capture"; readonly query: string }
);

/** Pattern of a name, which excludes `..` and percent-encoding. */
const NAME = "([a-z0-9][a-z0-9.-]*)";
const PATH = new RegExp(
  `^/apis/${names.SUBRESOURCES_GROUP}/(?:${VERSIONS.join("|")})/namespaces/${NAME}/(virtualmachines|virtualmachineinstances)/${NAME}/(.+)$`,
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

/** Parses the raw path, which the API server authorized. A URL parser would resolve `..` into other namespaces. */
function parsePath(path: string): ParsedPath | undefined {
  const found = PATH.exec(path);
  if (found === null) return undefined;
  const [, namespace = "", resource, name = "", subresource = ""] = found;
  return { target: { namespace, name, isVm: resource === "virtualmachines" }, subresource };
}

export function parseStreamUrl(url: string): StreamTarget | undefined {
  const [path = "", query = ""] = url.split(/\?(.*)/s);
  const parsed = parsePath(path);
  if (parsed === undefined) return undefined;
  const { target, subresource } = parsed;
  const [first, ...parts] = subresource.split("/");
  if (first === "portforward") {
    const forward = parseForward(parts);
    return forward === undefined ? undefined : { ...target, kind: "forward", ...forward };
  }
  if (target.isVm) return undefined;
  if (subresource === CAPTURE) return { ...target, kind: "capture", query };
  if (!isGuestStream(subresource)) return undefined;
  const preservesSession = new URLSearchParams(query).get(PRESERVE_SESSION) === "true";
  return { ...target, kind: "guest", stream: subresource, preservesSession };
}
