// SPDX-License-Identifier: Apache-2.0
// What virt-api asks of the virt-handler of a guest's node, and by which names the two know each other. Source: KubeVirt
// kubecli VirtHandlerConn.
import type { ObjectKey } from "../ports/store.ts";

/** What can be asked; `put` changes something. */
export const GUEST_REQUESTS = {
  pause: "put",
  unpause: "put",
  reset: "put",
  softreboot: "put",
  guestosinfo: "get",
  userlist: "get",
  filesystemlist: "get",
  /** The node tells it; the guest is not asked. */
  interfacetraffic: "get",
} as const;

/** One of them. */
export type GuestRequest = keyof typeof GUEST_REQUESTS;

/** The name for which virt-handler's certificate is made, on whichever node it is. */
export const HANDLER_SERVER_NAME = "virt-handler";
/** Common name of the one client that it answers. */
export const HANDLER_CLIENT_NAME = "virt-api";

/** What the agent of a node asks virt-api for: the certificate that its node shows when a guest moves. */
export const RELAY_CERTIFICATE = "relaycertificate";

/** Whether there is such a request. */
export function isGuestRequest(name: string): name is GuestRequest {
  return Object.hasOwn(GUEST_REQUESTS, name);
}

/** The path at virt-handler of what is asked of a guest. */
export function guestPath({ namespace = "", name }: ObjectKey, what: string): string {
  const parts = ["v1", "namespaces", namespace, "virtualmachineinstances", name, what];
  return `/${parts.map(encodeURIComponent).join("/")}`;
}

/** Of which guest a path asks what; undefined where it is none of ours. */
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

/** What a path asks; undefined where it is none of these. */
export function parseGuestRequest(
  path: string,
): { readonly key: Required<ObjectKey>; readonly request: GuestRequest } | undefined {
  const { key, what = "" } = parseGuestPath(path) ?? {};
  return key !== undefined && isGuestRequest(what) ? { key, request: what } : undefined;
}
