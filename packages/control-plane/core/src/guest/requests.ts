// SPDX-License-Identifier: Apache-2.0
// Requests of virt-api to virt-handler about a guest, and the names in their certificates. Source: KubeVirt kubecli
// VirtHandlerConn.
import type { ObjectKey } from "../interfaces/store.ts";

export const GUEST_REQUESTS = {
  pause: "put",
  unpause: "put",
  reset: "put",
  softreboot: "put",
  guestosinfo: "get",
  userlist: "get",
  filesystemlist: "get",
  /** Answered by virt-handler without querying the guest. */
  interfacetraffic: "get",
} as const;

export type GuestRequest = keyof typeof GUEST_REQUESTS;

/** Server name in virt-handler's certificate, the same on every node. */
export const HANDLER_SERVER_NAME = "virt-handler";
/** Common name of the only client that virt-handler accepts. */
export const HANDLER_CLIENT_NAME = "virt-api";

/** virt-handler requests this certificate from virt-api. It authenticates the node during migrations. */
export const RELAY_CERTIFICATE = "relaycertificate";

function isGuestRequest(name: string): name is GuestRequest {
  return Object.hasOwn(GUEST_REQUESTS, name);
}

export function guestPath({ namespace = "", name }: ObjectKey, what: string): string {
  const parts = ["v1", "namespaces", namespace, "virtualmachineinstances", name, what];
  return `/${parts.map(encodeURIComponent).join("/")}`;
}

export function parseGuestPath(
  path: string,
): { readonly key: Required<ObjectKey>; readonly what: string } | undefined {
  const parts = path.split("/");
  const [, version, plural, namespace = "", resource, name = "", what = ""] = parts;
  const isPath =
    parts.length === 7 &&
    [version, plural, resource].join() === "v1,namespaces,virtualmachineinstances";
  return isPath ? { key: { namespace, name }, what } : undefined;
}

export function parseGuestRequest(
  path: string,
): { readonly key: Required<ObjectKey>; readonly request: GuestRequest } | undefined {
  const { key, what = "" } = parseGuestPath(path) ?? {};
  return key !== undefined && isGuestRequest(what) ? { key, request: what } : undefined;
}

const STREAMS = ["console", "vnc"] as const;

/** A guest serves one client for each stream at a time. */
export type GuestStream = (typeof STREAMS)[number];

/** WebSocket subprotocol for raw bytes. Source: KubeVirt kubecli PlainStreamProtocolName. */
export const STREAM_PROTOCOL = "plain.kubevirt.io";

/** Query parameter: with `true`, a client that already has the stream keeps it. Source: KubeVirt PreserveSessionParamName. */
export const PRESERVE_SESSION = "preserveSession";

/** Query parameter of virt-handler only: with `true`, no client loses the screen. */
const SHARED_VIEW = "beside";

export interface StreamRequest {
  readonly stream: GuestStream;
  /** Refuse the request while another client has the stream. Otherwise that client is disconnected. */
  readonly preservesSession: boolean;
  /** Look at the screen briefly without disconnecting its client. */
  readonly isBeside?: true;
}

export function isGuestStream(name: string): name is GuestStream {
  return (STREAMS as readonly string[]).includes(name);
}

export function guestStreamPath(
  key: ObjectKey,
  { stream, preservesSession, isBeside }: StreamRequest,
): string {
  const asked = [
    ...(preservesSession ? [PRESERVE_SESSION] : []),
    ...(isBeside === true ? [SHARED_VIEW] : []),
  ];
  const query = asked.map((name) => `${name}=true`).join("&");
  return `${guestPath(key, stream)}${query === "" ? "" : `?${query}`}`;
}

export function parseGuestStream(
  url: string,
): (StreamRequest & { readonly key: Required<ObjectKey> }) | undefined {
  const [path = "", query = ""] = url.split("?");
  const { key, what = "" } = parseGuestPath(path) ?? {};
  if (key === undefined || !isGuestStream(what)) return undefined;
  const asked = query.split("&");
  const preservesSession = asked.includes(`${PRESERVE_SESSION}=true`);
  const isBeside = what === "vnc" && asked.includes(`${SHARED_VIEW}=true`);
  return { key, stream: what, preservesSession, ...(isBeside && { isBeside }) };
}

/** Name of the subresource, and last part of virt-handler's path. */
export const DOCTOR = "doctor";

/** Longest interface name in characters. Source: Kubernetes DNS label. */
const NAME_MAX = 63;

export function parseDoctorQuery(
  query: Iterable<readonly [string, string]>,
): { readonly iface: string } | { readonly problems: readonly string[] } {
  const values = new Map(query);
  const iface = values.get("interface") ?? "";
  const unknown = [...values.keys()].filter((name) => name !== "interface" && name !== "dryRun");
  const isName = iface !== "" && iface.length <= NAME_MAX;
  const problems = [
    ...(isName ? [] : ["interface: must name an interface of the VM"]),
    ...unknown.map((name) => `${name}: is not known; known is interface`),
  ];
  return problems.length > 0 ? { problems } : { iface };
}

export function doctorPath(key: ObjectKey, iface: string): string {
  return `${guestPath(key, DOCTOR)}/${encodeURIComponent(iface)}`;
}

export function parseDoctorPath(
  path: string,
): { readonly key: Required<ObjectKey>; readonly iface: string } | undefined {
  const at = path.lastIndexOf("/");
  const { key, what } = parseGuestPath(path.slice(0, at)) ?? {};
  if (key === undefined || what !== DOCTOR) return undefined;
  return { key, iface: decodeURIComponent(path.slice(at + 1)) };
}
