// SPDX-License-Identifier: Apache-2.0
// HTTP requests from virt-api to virt-handler about a guest, and names in both services' certificates. Source: KubeVirt kubecli
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
  /** virt-handler answers this request without querying the guest. */
  interfacetraffic: "get",
} as const;

export type GuestRequest = keyof typeof GUEST_REQUESTS;

/** Server name in virt-handler's certificates. All nodes use the same name. */
export const HANDLER_SERVER_NAME = "virt-handler";
/** Common name of the only client that virt-handler accepts. */
export const HANDLER_CLIENT_NAME = "virt-api";

/** Name of virt-api's endpoint from which virt-handler requests a certificate for migrations. */
export const RELAY_CERTIFICATE = "relaycertificate";

function isGuestRequest(name: string): name is GuestRequest {
  return Object.hasOwn(GUEST_REQUESTS, name);
}

export function buildGuestPath({ namespace = "", name }: ObjectKey, subresource: string): string {
  const parts = ["v1", "namespaces", namespace, "virtualmachineinstances", name, subresource];
  return `/${parts.map(encodeURIComponent).join("/")}`;
}

export function parseGuestPath(
  path: string,
): { readonly key: Required<ObjectKey>; readonly subresource: string } | undefined {
  const parts = path.split("/");
  const [, version, plural, namespace = "", resource, name = "", subresource = ""] = parts;
  const isPath =
    parts.length === 7 &&
    [version, plural, resource].join() === "v1,namespaces,virtualmachineinstances";
  return isPath ? { key: { namespace, name }, subresource } : undefined;
}

export function parseGuestRequest(
  path: string,
): { readonly key: Required<ObjectKey>; readonly request: GuestRequest } | undefined {
  const { key, subresource = "" } = parseGuestPath(path) ?? {};
  return key !== undefined && isGuestRequest(subresource)
    ? { key, request: subresource }
    : undefined;
}

const STREAMS = ["console", "vnc"] as const;

export type GuestStream = (typeof STREAMS)[number];

/** WebSocket subprotocol for raw bytes. Source: KubeVirt kubecli PlainStreamProtocolName. */
export const STREAM_PROTOCOL = "plain.kubevirt.io";

/** Query parameter. `true` rejects the request while another client is connected. Source: KubeVirt PreserveSessionParamName. */
export const PRESERVE_SESSION = "preserveSession";

/** Query parameter that only virt-handler accepts. If it is `true`, the new client shares the screen with the current client. */
const SHARED_VIEW = "beside";

export interface StreamRequest {
  readonly stream: GuestStream;
  /** Whether to reject the request, instead of disconnecting the stream's current client. Without effect if `sharesScreen` is set. */
  readonly preservesSession: boolean;
  /** Whether to share the screen with the current client, for example for a screenshot. */
  readonly sharesScreen?: true;
}

export function isGuestStream(name: string): name is GuestStream {
  return (STREAMS as readonly string[]).includes(name);
}

export function buildGuestStreamPath(
  key: ObjectKey,
  { stream, preservesSession, sharesScreen }: StreamRequest,
): string {
  const parameters = [
    ...(preservesSession ? [PRESERVE_SESSION] : []),
    ...(sharesScreen === true ? [SHARED_VIEW] : []),
  ];
  const query = parameters.map((name) => `${name}=true`).join("&");
  return `${buildGuestPath(key, stream)}${query === "" ? "" : `?${query}`}`;
}

export function parseGuestStream(
  url: string,
): (StreamRequest & { readonly key: Required<ObjectKey> }) | undefined {
  const [path = "", query = ""] = url.split("?");
  const { key, subresource = "" } = parseGuestPath(path) ?? {};
  if (key === undefined || !isGuestStream(subresource)) return undefined;
  const parameters = query.split("&");
  const preservesSession = parameters.includes(`${PRESERVE_SESSION}=true`);
  const sharesScreen = subresource === "vnc" && parameters.includes(`${SHARED_VIEW}=true`);
  return { key, stream: subresource, preservesSession, ...(sharesScreen && { sharesScreen }) };
}

/** Subresource of the NIC doctor, and its path segment in requests to virt-handler. */
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

export function buildDoctorPath(key: ObjectKey, iface: string): string {
  return `${buildGuestPath(key, DOCTOR)}/${encodeURIComponent(iface)}`;
}

export function parseDoctorPath(
  path: string,
): { readonly key: Required<ObjectKey>; readonly iface: string } | undefined {
  const separator = path.lastIndexOf("/");
  const { key, subresource } = parseGuestPath(path.slice(0, separator)) ?? {};
  if (key === undefined || subresource !== DOCTOR) return undefined;
  return { key, iface: decodeURIComponent(path.slice(separator + 1)) };
}
