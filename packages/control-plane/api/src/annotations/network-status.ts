// SPDX-License-Identifier: Apache-2.0
// Codecs of the annotations that report a pod's networks, their gateways, and failed attachments. Source: NPWG 1.3 section 5.
import { parseIp } from "../values/ip.ts";
import { isJsonObject, parseJson } from "../values/json.ts";
import { isLinkName } from "../values/name-syntax.ts";
import { parseMac } from "../values/mac.ts";

export interface NetworkStatus {
  /** NAMESPACE/NAME of the NetworkAttachmentDefinition; for the default network, `name` of its CNI configuration. */
  readonly name: string;
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

export function parseNetworkStatus(text: string | undefined): readonly NetworkStatus[] {
  const value = parseJson(text);
  return Array.isArray(value) ? value.filter(isNetworkStatus) : [];
}

function valueIfValid<T>(value: unknown, isValid: (value: unknown) => value is T): T | undefined {
  return isValid(value) ? value : undefined;
}

function isStringWhere(isValid: (text: string) => boolean): (value: unknown) => value is string {
  return (value): value is string => typeof value === "string" && isValid(value);
}

const isMac = isStringWhere((text) => parseMac(text) !== undefined);
const isIp = isStringWhere((text) => parseIp(text) !== undefined);
const isNic = isStringWhere(isLinkName);

/** Returns the fields that Patchbay uses, without invalid values, because pod authors can write any value into the annotation. */
export function sanitizeNetworkStatus(entry: NetworkStatus): NetworkStatus {
  const interfaceName = valueIfValid(entry.interface, isNic);
  const mac = valueIfValid(entry.mac, isMac);
  const ips = valueIfValid<readonly unknown[]>(entry.ips, Array.isArray)?.filter(isIp);
  const dns = valueIfValid(entry.dns, isJsonObject);
  const deviceInfo = valueIfValid(entry["device-info"], isJsonObject);
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

export function printNetworkStatus(entries: readonly NetworkStatus[]): string {
  return JSON.stringify(entries);
}

/** Unix socket of a vhost-user NIC. Source: NPWG device information 1.1.0 section 4. */
export interface VhostUserInfo {
  /** `client` if QEMU connects to the socket; `server` if QEMU listens on the socket. */
  readonly mode: string;
  readonly path: string;
}

const VHOST_USER_TYPE = "vhost-user";

export function parseVhostUserInfo(deviceInfo: unknown): VhostUserInfo | undefined {
  if (!isJsonObject(deviceInfo) || deviceInfo["type"] !== VHOST_USER_TYPE) return undefined;
  const details = deviceInfo[VHOST_USER_TYPE];
  const { mode, path } = isJsonObject(details) ? details : {};
  return {
    mode: typeof mode === "string" ? mode : "",
    path: typeof path === "string" ? path : "",
  };
}

export interface AttachmentError {
  /** Reason in CamelCase, listed in docs/reference/phases.md. */
  readonly reason: string;
  readonly message: string;
}

/** Attachment errors, by the name of the NIC in the pod. */
export type AttachmentErrors = Readonly<Record<string, AttachmentError>>;

function isAttachmentError(value: unknown): value is AttachmentError {
  return (
    isJsonObject(value) &&
    typeof value["reason"] === "string" &&
    typeof value["message"] === "string"
  );
}

export function parseAttachmentErrors(text: string | undefined): AttachmentErrors {
  const value = parseJson(text);
  if (!isJsonObject(value)) return {};
  return Object.fromEntries(
    Object.entries(value).flatMap(([nic, error]) =>
      isAttachmentError(error) ? [[nic, error] as const] : [],
    ),
  );
}

/** Prints the errors sorted by NIC, so that equal errors have equal JSON. Returns undefined for an empty map. */
export function printAttachmentErrors(
  errors: ReadonlyMap<string, AttachmentError>,
): string | undefined {
  if (errors.size === 0) return undefined;
  const sorted = [...errors].toSorted(([nic], [otherNic]) => (nic < otherNic ? -1 : 1));
  return JSON.stringify(Object.fromEntries(sorted));
}

/** Gateways that CNI returned, by the NIC's name in the pod. */
export type CniGateways = Readonly<Record<string, readonly string[]>>;

/** Maximum number of gateways of a NIC. Plugins return one for each address family. */
const GATEWAYS_MAX = 8;

export function parseCniGateways(text: string | undefined): CniGateways {
  const value = parseJson(text);
  if (!isJsonObject(value)) return {};
  return Object.fromEntries(
    Object.entries(value).flatMap(([nic, list]) => {
      const gateways = Array.isArray(list) ? list.filter(isIp).slice(0, GATEWAYS_MAX) : [];
      return gateways.length === 0 ? [] : [[nic, gateways] as const];
    }),
  );
}

/** Prints the gateways sorted by NIC, so that equal gateways have equal JSON. Returns undefined if no NIC has a gateway. */
export function printCniGateways(gateways: CniGateways): string | undefined {
  const present = Object.entries(gateways).filter(([, list]) => list.length > 0);
  if (present.length === 0) return undefined;
  const sorted = present.toSorted(([nic], [otherNic]) => (nic < otherNic ? -1 : 1));
  return JSON.stringify(
    Object.fromEntries(sorted.map(([nic, list]) => [nic, list.slice(0, GATEWAYS_MAX)])),
  );
}
