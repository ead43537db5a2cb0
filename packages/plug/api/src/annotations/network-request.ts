// SPDX-License-Identifier: Apache-2.0
// What is wrong with the values that an element of the network selection asks for? Source: NPWG 1.3 section 4.1.2.1.
import type { Cause } from "../kinds/kubernetes/meta.ts";
import { parseIp } from "../values/ip.ts";
import { isJsonObject, type JsonObject } from "../values/json.ts";
import { MAC_BYTES, parseMac } from "../values/mac.ts";
import { isObjectName } from "../values/nad-name.ts";
import type { NetworkSelection } from "./networks.ts";

/** Bytes of a GUID. Source: InfiniBand Architecture, EUI-64. */
const GUID_BYTES = 8;
const PORT_MAX = 65_535;
const PROTOCOLS: readonly string[] = ["tcp", "udp", "sctp"];

type Causes = readonly Cause[];

function invalid(field: string, message: string): Cause {
  return { reason: "FieldValueInvalid", field, message };
}

/** None where the value is absent or as it should be. */
function unless(
  { field, value }: { readonly field: string; readonly value: unknown },
  isSo: (value: unknown) => boolean,
  message: string,
): Causes {
  if (value === undefined || isSo(value)) return [];
  const shown = JSON.stringify(value).slice(0, 63);
  return [invalid(field, `${shown} ${message}`)];
}

function isHardwareAddress(bytes: number): (value: unknown) => boolean {
  return (value) => typeof value === "string" && parseMac(value)?.length === bytes;
}

function isIp(value: unknown): boolean {
  return typeof value === "string" && parseIp(value) !== undefined;
}

/** An address without the length of a prefix. */
function isHost(value: unknown): value is string {
  return typeof value === "string" && !value.includes("/") && parseIp(value) !== undefined;
}

function isWhole(least: number, most: number): (value: unknown) => boolean {
  return (value) => Number.isInteger(value) && Number(value) >= least && Number(value) <= most;
}

function mappingCauses(field: string, mapping: unknown): Causes {
  if (!isJsonObject(mapping)) return [invalid(field, "is not an object")];
  const ports = ["hostPort", "containerPort"].flatMap((name) => {
    const at = { field: `${field}.${name}`, value: mapping[name] ?? null };
    return unless(at, isWhole(1, PORT_MAX), `is not a port from 1 to ${String(PORT_MAX)}`);
  });
  const isProtocol = (value: unknown): boolean =>
    typeof value === "string" && PROTOCOLS.includes(value.toLowerCase());
  const { protocol, hostIP } = mapping;
  return [
    ...ports,
    ...unless(
      { field: `${field}.protocol`, value: protocol },
      isProtocol,
      "is not TCP, UDP or SCTP",
    ),
    ...unless({ field: `${field}.hostIP`, value: hostIP }, isHost, "is not an IP address"),
  ];
}

function portCauses(value: unknown): Causes {
  if (value === undefined) return [];
  if (!Array.isArray(value)) return [invalid("portMappings", "is not a list")];
  return value.flatMap((mapping: unknown, index) =>
    mappingCauses(`portMappings[${String(index)}]`, mapping),
  );
}

function burstCauses(bandwidth: JsonObject, direction: "ingress" | "egress"): Causes {
  const { [`${direction}Rate`]: rate = 0, [`${direction}Burst`]: burst = 0 } = bandwidth;
  if (burst === 0 || rate !== 0) return [];
  return [invalid(`bandwidth.${direction}Burst`, `needs ${direction}Rate beside it`)];
}

function bandwidthCauses(value: unknown): Causes {
  if (value === undefined) return [];
  if (!isJsonObject(value)) return [invalid("bandwidth", "is not an object")];
  const names = ["ingressRate", "ingressBurst", "egressRate", "egressBurst"];
  const isBits = isWhole(0, Number.MAX_SAFE_INTEGER);
  return [
    ...names.flatMap((name) =>
      unless({ field: `bandwidth.${name}`, value: value[name] }, isBits, "is not a number of bits"),
    ),
    ...burstCauses(value, "ingress"),
    ...burstCauses(value, "egress"),
  ];
}

/** One default route for each family is all that a pod can have. Source: Multus, CheckGatewayConfig. */
function routeCauses(value: unknown): Causes {
  const field = "default-route";
  if (value === undefined) return [];
  if (!Array.isArray(value) || value.length === 0) {
    return [invalid(field, "is not a list of gateways")];
  }
  const gateways: readonly unknown[] = value;
  const versions = gateways.map((gateway) =>
    isHost(gateway) ? parseIp(gateway)?.version : undefined,
  );
  return gateways.flatMap((gateway, index) => {
    const at = `${field}[${String(index)}]`;
    const version = versions[index];
    if (version === undefined) {
      return unless({ field: at, value: gateway ?? null }, isHost, "is not an IP address");
    }
    return versions.indexOf(version) === index
      ? []
      : [invalid(at, `is a second gateway of IPv${String(version)}`)];
  });
}

function claimCauses({ ips, "ipam-claim-reference": claim }: NetworkSelection): Causes {
  const field = "ipam-claim-reference";
  const isName = (value: unknown): boolean => typeof value === "string" && isObjectName(value);
  if (claim !== undefined && ips !== undefined && ips.length > 0) {
    return [{ reason: "FieldValueForbidden", field, message: "cannot be beside ips" }];
  }
  return unless({ field, value: claim }, isName, "is not the name of an IPAMClaim");
}

/** All that is wrong with what an element asks for, by its field; none: a network can be asked for it. */
export function requestCausesOf(element: NetworkSelection): Causes {
  const { mac, ips = [], deviceID, "infiniband-guid": guid } = element;
  const isText = (value: unknown): boolean => typeof value === "string" && value !== "";
  return [
    ...unless(
      { field: "mac", value: mac },
      isHardwareAddress(MAC_BYTES),
      "is not a MAC address of six bytes",
    ),
    ...unless(
      { field: "infiniband-guid", value: guid },
      isHardwareAddress(GUID_BYTES),
      "is not a GUID of eight bytes",
    ),
    ...ips.flatMap((ip, index) =>
      unless({ field: `ips[${String(index)}]`, value: ip }, isIp, "is not an IP address"),
    ),
    ...portCauses(element.portMappings),
    ...bandwidthCauses(element.bandwidth),
    ...routeCauses(element["default-route"]),
    ...unless({ field: "deviceID", value: deviceID }, isText, "is not the ID of a device"),
    ...claimCauses(element),
  ];
}

/** The gateways of the default routes that an element asks for; what is none is left out. */
export function gatewaysOf(element: NetworkSelection): readonly string[] {
  const asked = element["default-route"];
  return Array.isArray(asked) ? asked.filter(isHost) : [];
}
