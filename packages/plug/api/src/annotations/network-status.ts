// SPDX-License-Identifier: Apache-2.0
// Codec of the annotation `k8s.v1.cni.cncf.io/network-status`. Source: NPWG de-facto standard 1.3 section 5.
import { parseIp } from "../values/ip.ts";
import { isJsonObject, parseJson } from "../values/json.ts";
import { isLinkName } from "../values/name-syntax.ts";
import { parseMac } from "../values/mac.ts";

/** One network that the pod has. */
export interface NetworkStatus {
  /** NAMESPACE/NAME of the network definition, or the name in the CNI configuration for the default network. */
  readonly name: string;
  /** NIC in the pod. */
  readonly interface?: string;
  /** Addresses without prefix length. */
  readonly ips?: readonly string[];
  readonly mac?: string;
  readonly mtu?: number;
  readonly default?: boolean;
  readonly dns?: unknown;
  readonly "device-info"?: unknown;
  readonly gateway?: readonly string[];
}

function isNetworkStatus(value: unknown): value is NetworkStatus {
  return isJsonObject(value) && typeof value["name"] === "string";
}

/** Reads the annotation; what is missing or malformed is an empty list, and so is each malformed entry. */
export function parseNetworkStatus(text: string | undefined): readonly NetworkStatus[] {
  const value = parseJson(text);
  // Foreign text: a reader of status has nothing to refuse, it sees no network.
  return Array.isArray(value) ? value.filter(isNetworkStatus) : [];
}

/** The value where it is what it says to be. */
function only<T>(value: unknown, isSo: (value: unknown) => value is T): T | undefined {
  return isSo(value) ? value : undefined;
}

function isText(isSo: (text: string) => boolean): (value: unknown) => value is string {
  return (value): value is string => typeof value === "string" && isSo(value);
}

const isMac = isText((text) => parseMac(text) !== undefined);
const isIp = isText((text) => parseIp(text) !== undefined);
const isNic = isText(isLinkName);

/** What of an entry may go into a status: whoever may write a pod's annotations can have put anything into each field. */
export function soundNetworkStatus(entry: NetworkStatus): NetworkStatus {
  const interfaceName = only(entry.interface, isNic);
  const mac = only(entry.mac, isMac);
  const ips = only<readonly unknown[]>(entry.ips, Array.isArray)?.filter(isIp);
  const dns = only(entry.dns, isJsonObject);
  const deviceInfo = only(entry["device-info"], isJsonObject);
  return {
    name: entry.name,
    ...(interfaceName === undefined ? {} : { interface: interfaceName }),
    ...(ips === undefined ? {} : { ips }),
    ...(mac === undefined ? {} : { mac }),
    ...(entry.default === true ? { default: true } : {}),
    ...(dns === undefined ? {} : { dns }),
    ...(deviceInfo === undefined ? {} : { "device-info": deviceInfo }),
  };
}

/** Writes the annotation; order is kept. */
export function printNetworkStatus(entries: readonly NetworkStatus[]): string {
  return JSON.stringify(entries);
}

// Source: NPWG device information 1.1.0 section 4.

/** A socket over which a guest's NIC and a process of the node speak vhost-user. */
export interface VhostUserInfo {
  /** `client`: the process of the node listens, the guest's side connects; `server`: the other way round. */
  readonly mode: string;
  readonly path: string;
}

const TYPE = "vhost-user";

/** The socket of a device information; undefined: it tells of another kind of device, or of none. */
export function vhostUserOf(deviceInfo: unknown): VhostUserInfo | undefined {
  if (!isJsonObject(deviceInfo) || deviceInfo["type"] !== TYPE) return undefined;
  const told = deviceInfo[TYPE];
  const { mode, path } = isJsonObject(told) ? told : {};
  return {
    mode: typeof mode === "string" ? mode : "",
    path: typeof path === "string" ? path : "",
  };
}

/** Why one attachment fails. */
export interface AttachmentError {
  /** Stable, in CamelCase; docs/reference/phases.md. */
  readonly reason: string;
  /** For people. */
  readonly message: string;
}

/** Why attachments fail, by pod NIC. */
export type AttachmentErrors = Readonly<Record<string, AttachmentError>>;

function isAttachmentError(value: unknown): value is AttachmentError {
  return (
    isJsonObject(value) &&
    typeof value["reason"] === "string" &&
    typeof value["message"] === "string"
  );
}

/** Reads the annotation; what cannot be read says nothing: it is only a reason for people, the attachment is still awaited. */
export function parseAttachmentErrors(text: string | undefined): AttachmentErrors {
  const value = parseJson(text);
  if (!isJsonObject(value)) return {};
  return Object.fromEntries(
    Object.entries(value).flatMap(([nic, error]) =>
      isAttachmentError(error) ? [[nic, error] as const] : [],
    ),
  );
}

/** Writes the annotation, sorted by NIC, so that the same errors are the same text; undefined: there are none. */
export function printAttachmentErrors(
  errors: ReadonlyMap<string, AttachmentError>,
): string | undefined {
  if (errors.size === 0) return undefined;
  const sorted = [...errors].toSorted(([a], [b]) => (a < b ? -1 : 1));
  return JSON.stringify(Object.fromEntries(sorted));
}
