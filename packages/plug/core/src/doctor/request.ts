// SPDX-License-Identifier: Apache-2.0
// What is asked where somebody wants to know where frames of an interface die, and by which path. Pure.
import { guestPath, parseGuestPath } from "../guest/requests.ts";
import type { ObjectKey } from "../ports/store.ts";

/** Name of the subresource, and last part of the path at virt-handler. */
export const DOCTOR = "doctor";

/** Longest name of an interface, characters. Source: Kubernetes, DNS label. */
const NAME_MAX = 63;

/** The interface that a query names, or all that is wrong with it, each with the field. */
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

/** The path at virt-handler. */
export function doctorPath(key: ObjectKey, iface: string): string {
  return `${guestPath(key, DOCTOR)}/${encodeURIComponent(iface)}`;
}

/** What a path asks; undefined where it is another. */
export function parseDoctorPath(
  path: string,
): { readonly key: Required<ObjectKey>; readonly iface: string } | undefined {
  const at = path.lastIndexOf("/");
  const { key, what } = parseGuestPath(path.slice(0, at)) ?? {};
  if (key === undefined || what !== DOCTOR) return undefined;
  return { key, iface: decodeURIComponent(path.slice(at + 1)) };
}
