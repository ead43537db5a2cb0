// SPDX-License-Identifier: Apache-2.0
// Requests of virt-api to virt-handler about a guest, and the names in their certificates.
// Source: KubeVirt kubecli VirtHandlerConn.
import type { ObjectKey } from "../interfaces/store.ts";

export const GUEST_REQUESTS = {
  pause: "put",
  unpause: "put",
  reset: "put",
  softreboot: "put",
  guestosinfo: "get",
  userlist: "get",
  filesystemlist: "get",
  /** virt-handler responds without a query to the guest. */
  interfacetraffic: "get",
} as const;

export type GuestRequest = keyof typeof GUEST_REQUESTS;

/** Server name in virt-handler's certificate, which is the same on every node. */
export const HANDLER_SERVER_NAME = "virt-handler";
/** Common name of the only client that virt-handler accepts. */
export const HANDLER_CLIENT_NAME = "virt-api";

/** Last part of the path at which virt-handler requests its certificate for migrations from virt-api. */
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

/** A stream of the guest, which serves one client at a time. */
export type GuestStream = (typeof STREAMS)[number];

/** WebSocket subprotocol for raw bytes. Source: KubeVirt kubecli PlainStreamProtocolName. */
export const STREAM_PROTOCOL = "plain.kubevirt.io";

/** Query parameter. With `true`, a new client does not disconnect the current one. Source: KubeVirt PreserveSessionParamName. */
export const PRESERVE_SESSION = "preserveSession";

/** Query parameter of virt-handler only. With `true`, the client shares the screen with the current client. */
const SHARED_VIEW = "beside";

export interface StreamRequest {
  readonly stream: GuestStream;
  /** Whether to reject the request while another client has the stream, instead of disconnecting that client. */
  readonly preservesSession: boolean;
  /** Set to observe the screen briefly without disconnecting its client. */
  readonly isBeside?: true;
}

export function isGuestStream(name: string): name is GuestStream {
  return (STREAMS as readonly string[]).includes(name);
}

export function guestStreamPath(
  key: ObjectKey,
  { stream, preservesSession, isBeside }: StreamRequest,
): string {
  const parameters = [
    ...(preservesSession ? [PRESERVE_SESSION] : []),
    ...(isBeside === true ? [SHARED_VIEW] : []),
  ];
  const query = parameters.map((name) => `${name}=true`).join("&");
  return `${guestPath(key, stream)}${query === "" ? "" : `?${query}`}`;
}

export function parseGuestStream(
  url: string,
): (StreamRequest & { readonly key: Required<ObjectKey> }) | undefined {
  const [path = "", query = ""] = url.split("?");
  const { key, what = "" } = parseGuestPath(path) ?? {};
  if (key === undefined || !isGuestStream(what)) return undefined;
  const parameters = query.split("&");
  const preservesSession = parameters.includes(`${PRESERVE_SESSION}=true`);
  const isBeside = what === "vnc" && parameters.includes(`${SHARED_VIEW}=true`);
  return { key, stream: what, preservesSession, ...(isBeside && { isBeside }) };
}

/** Name of the subresource, and a part of virt-handler's path. */
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
