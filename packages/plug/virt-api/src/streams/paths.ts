// SPDX-License-Identifier: Apache-2.0
// Which stream is asked for? Source: KubeVirt pkg/virt-api/api.go.
import { names } from "@patchbay/api";
import { CAPTURE, isGuestStream, PRESERVE_SESSION, type StreamRequest } from "@patchbay/core";
import { VERSIONS } from "../routes/table.ts";

/** A port of a guest. */
export interface ForwardRequest {
  /** 1 to 65535. */
  readonly port: number;
  readonly protocol: "tcp" | "udp";
}

/** What is asked for, of which VMI; a VM has the name of its VMI. */
export type StreamTarget = {
  readonly namespace: string;
  readonly name: string;
  readonly isVm: boolean;
} & (
  | ({ readonly kind: "guest" } & StreamRequest)
  | ({ readonly kind: "forward" } & ForwardRequest)
  /** What is asked is in the query, as it came. */
  | { readonly kind: "capture"; readonly query: string }
);

const PATH = new RegExp(
  `^/apis/${names.SUBRESOURCES_GROUP}/(?:${VERSIONS.join("|")})/namespaces/([^/]+)/(virtualmachines|virtualmachineinstances)/([^/]+)/(.+)$`,
);
const PORT_MAX = 65_535;

function parseForward(parts: readonly string[]): ForwardRequest | undefined {
  const [port = "", protocol = "tcp"] = parts;
  if (parts.length > 2 || !/^[1-9]\d*$/.test(port) || Number(port) > PORT_MAX) return undefined;
  return protocol === "tcp" || protocol === "udp" ? { port: Number(port), protocol } : undefined;
}

/** Undefined where it is none of these. */
export function parseStreamUrl(url: string): StreamTarget | undefined {
  const { pathname, search, searchParams } = new URL(url, "http://virt-api");
  const [, namespace = "", resource, name = "", rest = ""] = PATH.exec(pathname) ?? [];
  const of = { namespace, name, isVm: resource === "virtualmachines" };
  const [what, ...parts] = rest.split("/");
  if (what === "portforward") {
    const forward = parseForward(parts);
    return forward === undefined ? undefined : { ...of, kind: "forward", ...forward };
  }
  if (of.isVm) return undefined;
  if (rest === CAPTURE) return { ...of, kind: "capture", query: search.slice(1) };
  if (!isGuestStream(rest)) return undefined;
  const preservesSession = searchParams.get(PRESERVE_SESSION) === "true";
  return { ...of, kind: "guest", stream: rest, preservesSession };
}
