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

/** Begins as names do: neither `..` nor an escape is one. */
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

/** The object that a path names, and what is asked of it. */
interface Named {
  readonly of: Pick<StreamTarget, "namespace" | "name" | "isVm">;
  readonly what: string;
}

/** The path is taken as it came, as the API server has judged it: to a parser of URLs `..` leads into other namespaces. */
function parsePath(path: string): Named | undefined {
  const found = PATH.exec(path);
  if (found === null) return undefined;
  const [, namespace = "", resource, name = "", what = ""] = found;
  return { of: { namespace, name, isVm: resource === "virtualmachines" }, what };
}

/** Undefined where it is none of these. */
export function parseStreamUrl(url: string): StreamTarget | undefined {
  const [path = "", query = ""] = url.split(/\?(.*)/s);
  const named = parsePath(path);
  if (named === undefined) return undefined;
  const { of, what } = named;
  const [first, ...parts] = what.split("/");
  if (first === "portforward") {
    const forward = parseForward(parts);
    return forward === undefined ? undefined : { ...of, kind: "forward", ...forward };
  }
  if (of.isVm) return undefined;
  if (what === CAPTURE) return { ...of, kind: "capture", query };
  if (!isGuestStream(what)) return undefined;
  const preservesSession = new URLSearchParams(query).get(PRESERVE_SESSION) === "true";
  return { ...of, kind: "guest", stream: what, preservesSession };
}
