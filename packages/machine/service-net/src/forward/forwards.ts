// SPDX-License-Identifier: Apache-2.0
// What is sent to a Service, and to whom does it go? Pure.
import { isIPv4 } from "node:net";
import type { EndpointSlice, Service, ServicePort } from "@patchbay/api";
import { contains, type Network } from "./network.ts";

/** What of one port of a Service is known to the kernel. */
export interface Forward {
  /** `NAMESPACE/NAME:PORT/PROTOCOL`. */
  readonly name: string;
  readonly protocol: "tcp" | "udp";
  readonly address: string;
  readonly port: number;
  /** Absent: none. */
  readonly nodePort?: number;
  /** `ADDRESS . PORT`, sorted, at least one. */
  readonly endpoints: readonly string[];
  /** Whether who asks again gets the same endpoint, while endpoints stay. */
  readonly isSticky: boolean;
}

/** Where Services have their addresses. */
export interface Ranges {
  readonly services: Network;
  /** Of the name server: nobody's else. */
  readonly dns: string;
}

const PORT_MAX = 65_535;
/** Source: kube-apiserver, default of --service-node-port-range; a port outside was written before there was a rule. */
const [NODE_PORT_MIN, NODE_PORT_MAX] = [30_000, 32_767];
/** This host, a host's own loopback, link-local, several at once, and what is nobody's: nobody else is reached there. */
const NO_ENDPOINT = /^(?:0|127|169\.254|22[4-9]|23\d|24\d|25[0-5])\./;

function isPort(port: number | undefined): port is number {
  return port !== undefined && Number.isInteger(port) && port >= 1 && port <= PORT_MAX;
}

function protocolOf(text = "TCP"): "tcp" | "udp" | undefined {
  if (text === "TCP") return "tcp";
  return text === "UDP" ? "udp" : undefined;
}

/** Whether anything may be sent there; anybody may have written it. */
export function isEndpoint(address: string, { services }: Ranges): boolean {
  return isIPv4(address) && !NO_ENDPOINT.test(address) && !contains(services, address);
}

/** Those that are ready; where none is, those that are about to go and still answer. Source: KEP-1669. */
function addressesOf({ endpoints = [] }: EndpointSlice, want: "ready" | "serving") {
  return endpoints.flatMap(({ addresses, conditions = {} }) => {
    const { ready = true, serving = ready, terminating = false } = conditions;
    const isWanted = want === "ready" ? ready : serving && terminating;
    return isWanted ? addresses.slice(0, 1) : [];
  });
}

function endpointsOf(
  { name = "", protocol = "TCP" }: ServicePort,
  slices: readonly EndpointSlice[],
  ranges: Ranges,
): readonly string[] {
  const reached = (want: "ready" | "serving"): readonly string[] =>
    slices
      .filter(({ addressType }) => addressType === "IPv4")
      .flatMap((slice) => {
        const found = (slice.ports ?? []).find(
          (port) => (port.name ?? "") === name && (port.protocol ?? "TCP") === protocol,
        );
        if (found === undefined || !isPort(found.port)) return [];
        const { port } = found;
        return addressesOf(slice, want)
          .filter((address) => isEndpoint(address, ranges))
          .map((address) => `${address} . ${String(port)}`);
      });
  const ready = reached("ready");
  return [...new Set(ready.length > 0 ? ready : reached("serving"))].sort();
}

function nodePortOf({ nodePort }: ServicePort, { spec }: Service): number | undefined {
  const hasOne = spec.type === "NodePort" || spec.type === "LoadBalancer";
  const isSound = isPort(nodePort) && nodePort >= NODE_PORT_MIN && nodePort <= NODE_PORT_MAX;
  return hasOne && isSound ? nodePort : undefined;
}

/** Whether its address is one of this machine's Services; others are left alone, whoever wrote them. */
function isForwarded({ metadata, spec }: Service, { services, dns }: Ranges): boolean {
  const address = spec.clusterIP ?? "";
  return (
    metadata.deletionTimestamp === undefined &&
    spec.type !== "ExternalName" &&
    isIPv4(address) &&
    contains(services, address) &&
    address !== dns
  );
}

/** All that is forwarded for a Service; a port without an endpoint is not there. */
export function forwardsOf(
  service: Service,
  slices: readonly EndpointSlice[],
  ranges: Ranges,
): readonly Forward[] {
  if (!isForwarded(service, ranges)) return [];
  const { metadata, spec } = service;
  const key = `${metadata.namespace ?? ""}/${metadata.name}`;
  return (spec.ports ?? []).flatMap((port): readonly Forward[] => {
    const protocol = protocolOf(port.protocol);
    const endpoints = endpointsOf(port, slices, ranges);
    if (protocol === undefined || !isPort(port.port) || endpoints.length === 0) return [];
    const nodePort = nodePortOf(port, service);
    return [
      {
        name: `${key}:${String(port.port)}/${protocol}`,
        protocol,
        address: spec.clusterIP ?? "",
        port: port.port,
        endpoints,
        ...(nodePort !== undefined && { nodePort }),
        isSticky: spec.sessionAffinity === "ClientIP",
      },
    ];
  });
}

/** Drops what would be there twice, which the server does not give: the first by name stays. */
export function distinct(forwards: readonly Forward[]): readonly Forward[] {
  const seen = new Set<string>();
  const isNew = (...keys: readonly string[]): boolean => {
    if (keys.some((key) => seen.has(key))) return false;
    for (const key of keys) seen.add(key);
    return true;
  };
  return [...forwards]
    .sort((one, other) => (one.name < other.name ? -1 : 1))
    .filter(({ protocol, address, port, nodePort }) =>
      isNew(
        `${address} ${protocol} ${String(port)}`,
        ...(nodePort === undefined ? [] : [`${protocol} ${String(nodePort)}`]),
      ),
    );
}
