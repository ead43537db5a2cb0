// SPDX-License-Identifier: Apache-2.0
// Codec and validation of the annotation `k8s.v1.cni.cncf.io/networks`. Source: NPWG de-facto standard 1.3 section 4.1.
import { isJsonObject, type JsonObject } from "../values/json.ts";
import { isLinkName, LINK_NAME_MAX, isNamespaceName, isObjectName } from "../values/name-syntax.ts";
import type { Cause } from "../kinds/kubernetes/meta.ts";
import { parseIp } from "../values/ip.ts";
import { MAC_BYTES, parseMac } from "../values/mac.ts";
import { collectProblems, NETWORKS_ANNOTATION_LENGTH_MAX, NETWORKS_MAX } from "../limits.ts";

/** Element of the networks annotation. Its fields are declared in the order in which KubeVirt prints them. */
export interface NetworkSelection {
  readonly name: string;
  readonly namespace?: string;
  readonly mac?: string;
  readonly interface?: string;
  /** Older name of `interface`; ignored if `interface` is set. Source: Multus. */
  readonly interfaceRequest?: string;
  readonly ips?: readonly string[];
  /** Name of an IPAMClaim. Source: NPWG IPAMClaim. */
  readonly "ipam-claim-reference"?: string;
  readonly "cni-args"?: Readonly<Record<string, unknown>>;
  /** {@link parseNetworks} accepts any value in a field of type `unknown`; {@link validateNetworkSelection} checks such fields. */
  readonly portMappings?: unknown;
  readonly bandwidth?: unknown;
  readonly "infiniband-guid"?: unknown;
  readonly "default-route"?: unknown;
  readonly deviceID?: unknown;
  /** Earlier addresses of the NIC, which net-agent requests from IPAM again if possible. Multus ignores this field. */
  readonly "io.patchbay.kept-ips"?: readonly string[];
  /** Whether the network may assign a MAC other than `mac`. Multus ignores this field. */
  readonly "io.patchbay.kept-mac"?: boolean;
}

export type NetworksAnnotation =
  | { readonly ok: true; readonly elements: readonly NetworkSelection[] }
  | { readonly ok: false; readonly reason: string };

const QUOTE_LENGTH_MAX = 63;

function quote(text: string): string {
  return text.length > QUOTE_LENGTH_MAX ? `"${text.slice(0, QUOTE_LENGTH_MAX)}…"` : `"${text}"`;
}

/** Syntax of the short form `[namespace/]name[@interface]`, with optional blanks around each part. */
const SHORT_FORM_SYNTAX = /^(?:([^/@]*)\/)?([^/@]*)(?:@([^/@]*))?$/;

function parseShortItem(item: string): NetworkSelection | string {
  const parts: readonly (string | undefined)[] = SHORT_FORM_SYNTAX.exec(item) ?? [];
  const [, namespace, name = "", link] = parts.map((part) => part?.trim());
  if (name === "" || namespace === "" || link === "")
    return `${quote(item.trim())} is not of the form [namespace/]name[@interface]`;
  return {
    name,
    ...(namespace === undefined ? {} : { namespace }),
    ...(link === undefined ? {} : { interface: link }),
  };
}

const STRING_KEYS = ["namespace", "mac", "interface", "interfaceRequest"] as const;

function findShapeProblem(value: JsonObject): string | undefined {
  if (typeof value["name"] !== "string") return "name is not a string";
  const nonStringKey = STRING_KEYS.find(
    (key) => value[key] !== undefined && typeof value[key] !== "string",
  );
  if (nonStringKey !== undefined) return `${nonStringKey} is not a string`;
  const ips = value["ips"];
  if (ips !== undefined && !(Array.isArray(ips) && ips.every((ip) => typeof ip === "string"))) {
    return "ips is not a list of strings";
  }
  const args = value["cni-args"];
  return args === undefined || args === null || isJsonObject(args)
    ? undefined
    : "cni-args is not an object";
}

function parseJsonItem(value: unknown, index: number): NetworkSelection | string {
  const label = `element ${String(index)}`;
  if (!isJsonObject(value)) return `${label} is not an object`;
  const problem = findShapeProblem(value);
  // The cast is safe, because each field that findShapeProblem ignores is checked before its use.
  return problem === undefined ? (value as unknown as NetworkSelection) : `${label}: ${problem}`;
}

function findLinkProblem(link: string | undefined): string | undefined {
  if (link === undefined || link === "" || isLinkName(link)) return undefined;
  return `interface ${quote(link)} is not a valid link name, which has 1 to ${String(LINK_NAME_MAX)} bytes`;
}

function findElementProblem(element: NetworkSelection): string | undefined {
  const { name, namespace = "" } = element;
  if (!isObjectName(name)) return `network ${quote(name)} is not a valid object name`;
  if (namespace !== "" && !isNamespaceName(namespace)) {
    return `namespace ${quote(namespace)} is not a valid namespace name`;
  }
  return findLinkProblem(element.interface) ?? findLinkProblem(element.interfaceRequest);
}

function parseItems(text: string): readonly (NetworkSelection | string)[] | string {
  if (!/[[{"]/.test(text)) return text.split(",", NETWORKS_MAX + 1).map(parseShortItem);
  try {
    const value: unknown = JSON.parse(text);
    if (!Array.isArray(value)) return "the value is not a JSON list";
    return value.slice(0, NETWORKS_MAX + 1).map(parseJsonItem);
  } catch {
    return "the value is not valid JSON";
  }
}

function checkItems(items: readonly (NetworkSelection | string)[]): NetworksAnnotation {
  const elements: NetworkSelection[] = [];
  for (const item of items) {
    if (typeof item === "string") return { ok: false, reason: item };
    const problem = findElementProblem(item);
    if (problem !== undefined) return { ok: false, reason: problem };
    elements.push(item);
  }
  return { ok: true, elements };
}

/** Parses JSON or the short form `[namespace/]name[@interface],...`. One invalid element invalidates the whole annotation. */
export function parseNetworks(text: string | undefined): NetworksAnnotation {
  if (text === undefined) return { ok: true, elements: [] };
  if (text.length > NETWORKS_ANNOTATION_LENGTH_MAX) {
    const limit = String(NETWORKS_ANNOTATION_LENGTH_MAX);
    return { ok: false, reason: `it is longer than ${limit} characters` };
  }
  if (text.trim() === "") return { ok: true, elements: [] };
  const items = parseItems(text);
  if (typeof items === "string") return { ok: false, reason: items };
  if (items.length > NETWORKS_MAX) {
    return { ok: false, reason: `it names more than ${String(NETWORKS_MAX)} networks` };
  }
  return checkItems(items);
}

export function isReadableSelection(element: NetworkSelection): boolean {
  return findElementProblem(element) === undefined;
}

export function printNetworks(elements: readonly NetworkSelection[]): string {
  return JSON.stringify(elements);
}

/** Length of an InfiniBand GUID in bytes. Source: InfiniBand Architecture, EUI-64. */
const GUID_BYTES = 8;
const PORT_MAX = 65_535;
const PROTOCOLS: readonly string[] = ["tcp", "udp", "sctp"];

type Causes = readonly Cause[];

function buildInvalidCause(field: string, message: string): Cause {
  return { reason: "FieldValueInvalid", field, message };
}

function listCauseUnless(
  { field, value }: { readonly field: string; readonly value: unknown },
  isValid: (value: unknown) => boolean,
  message: string,
): Causes {
  if (value === undefined || isValid(value)) return [];
  const printedValue = JSON.stringify(value).slice(0, 63);
  return [buildInvalidCause(field, `${printedValue} ${message}`)];
}

function isHardwareAddress(bytes: number): (value: unknown) => boolean {
  return (value) => typeof value === "string" && parseMac(value)?.length === bytes;
}

function isIp(value: unknown): boolean {
  return typeof value === "string" && parseIp(value) !== undefined;
}

function isPlainAddress(value: unknown): value is string {
  return typeof value === "string" && !value.includes("/") && parseIp(value) !== undefined;
}

function isIntegerBetween(minimum: number, maximum: number): (value: unknown) => boolean {
  return (value) => Number.isInteger(value) && Number(value) >= minimum && Number(value) <= maximum;
}

function listMappingCauses(field: string, mapping: unknown): Causes {
  if (!isJsonObject(mapping)) return [buildInvalidCause(field, "is not an object")];
  const ports = ["hostPort", "containerPort"].flatMap((name) => {
    const port = { field: `${field}.${name}`, value: mapping[name] ?? null };
    return listCauseUnless(
      port,
      isIntegerBetween(1, PORT_MAX),
      `is not a port from 1 to ${String(PORT_MAX)}`,
    );
  });
  const isProtocol = (value: unknown): boolean =>
    typeof value === "string" && PROTOCOLS.includes(value.toLowerCase());
  const { protocol, hostIP } = mapping;
  return [
    ...ports,
    ...listCauseUnless(
      { field: `${field}.protocol`, value: protocol },
      isProtocol,
      "is not TCP, UDP or SCTP",
    ),
    ...listCauseUnless(
      { field: `${field}.hostIP`, value: hostIP },
      isPlainAddress,
      "is not an IP address",
    ),
  ];
}

function listPortCauses(value: unknown): Causes {
  if (value === undefined) return [];
  if (!Array.isArray(value)) return [buildInvalidCause("portMappings", "is not a list")];
  return collectProblems(value.entries(), ([index, mapping]: [number, unknown]) =>
    listMappingCauses(`portMappings[${String(index)}]`, mapping),
  );
}

function listBurstCauses(bandwidth: JsonObject, direction: "ingress" | "egress"): Causes {
  const { [`${direction}Rate`]: rate = 0, [`${direction}Burst`]: burst = 0 } = bandwidth;
  if (burst === 0 || rate !== 0) return [];
  return [buildInvalidCause(`bandwidth.${direction}Burst`, `needs ${direction}Rate beside it`)];
}

function listBandwidthCauses(value: unknown): Causes {
  if (value === undefined) return [];
  if (!isJsonObject(value)) return [buildInvalidCause("bandwidth", "is not an object")];
  const names = ["ingressRate", "ingressBurst", "egressRate", "egressBurst"];
  const isBitCount = isIntegerBetween(0, Number.MAX_SAFE_INTEGER);
  return [
    ...names.flatMap((name) =>
      listCauseUnless(
        { field: `bandwidth.${name}`, value: value[name] },
        isBitCount,
        "is not a number of bits",
      ),
    ),
    ...listBurstCauses(value, "ingress"),
    ...listBurstCauses(value, "egress"),
  ];
}

/** Checks the gateways of the default route. A pod has at most one gateway per address family. Source: Multus, CheckGatewayConfig. */
function listRouteCauses(value: unknown): Causes {
  const field = "default-route";
  if (value === undefined) return [];
  if (!Array.isArray(value) || value.length === 0) {
    return [buildInvalidCause(field, "is not a list of gateways")];
  }
  const gateways: readonly unknown[] = value;
  const versions = gateways.map((gateway) =>
    isPlainAddress(gateway) ? parseIp(gateway)?.version : undefined,
  );
  return gateways.flatMap((gateway, index) => {
    const path = `${field}[${String(index)}]`;
    const version = versions[index];
    if (version === undefined) {
      return listCauseUnless(
        { field: path, value: gateway ?? null },
        isPlainAddress,
        "is not an IP address",
      );
    }
    return versions.indexOf(version) === index
      ? []
      : [buildInvalidCause(path, `is a second gateway of IPv${String(version)}`)];
  });
}

function listClaimCauses({ ips, "ipam-claim-reference": claim }: NetworkSelection): Causes {
  const field = "ipam-claim-reference";
  const isName = (value: unknown): boolean => typeof value === "string" && isObjectName(value);
  if (claim !== undefined && ips !== undefined && ips.length > 0) {
    return [{ reason: "FieldValueForbidden", field, message: "cannot be beside ips" }];
  }
  return listCauseUnless({ field, value: claim }, isName, "is not the name of an IPAMClaim");
}

/** Validates the values of an element and returns at most eight causes. Source: NPWG 1.3 section 4.1.2.1. */
export function validateNetworkSelection(element: NetworkSelection): Causes {
  const { mac, ips = [], deviceID, "infiniband-guid": guid } = element;
  const isNonEmptyString = (value: unknown): boolean => typeof value === "string" && value !== "";
  const checks: readonly (() => Causes)[] = [
    () =>
      listCauseUnless(
        { field: "mac", value: mac },
        isHardwareAddress(MAC_BYTES),
        "is not a MAC address of six bytes",
      ),
    () =>
      listCauseUnless(
        { field: "infiniband-guid", value: guid },
        isHardwareAddress(GUID_BYTES),
        "is not a GUID of eight bytes",
      ),
    () =>
      collectProblems(ips.entries(), ([index, value]) =>
        listCauseUnless({ field: `ips[${String(index)}]`, value }, isIp, "is not an IP address"),
      ),
    () => listPortCauses(element.portMappings),
    () => listBandwidthCauses(element.bandwidth),
    () => listRouteCauses(element["default-route"]),
    () =>
      listCauseUnless(
        { field: "deviceID", value: deviceID },
        isNonEmptyString,
        "is not the ID of a device",
      ),
    () => listClaimCauses(element),
  ];
  return collectProblems(checks, (check) => check());
}

export function findGateways(element: NetworkSelection): readonly string[] {
  const gateways = element["default-route"];
  return Array.isArray(gateways) ? gateways.filter(isPlainAddress) : [];
}
