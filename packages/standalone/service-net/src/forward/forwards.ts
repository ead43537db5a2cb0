// SPDX-License-Identifier: Apache-2.0
import { isIPv4 } from "node:net";
import type { EndpointSlice, Service, ServicePort } from "@patchbay/api/kubernetes";
import { firstByKey, memoize } from "@patchbay/api/values";
import type { Clock } from "@patchbay/base";
import { containsAddress, type Network } from "./network.ts";

export interface Forward {
  /** Name in the form `NAMESPACE/NAME:PORT/PROTOCOL`. */
  readonly name: string;
  readonly protocol: "tcp" | "udp";
  readonly address: string;
  readonly port: number;
  readonly nodePort?: number;
  /** Sorted endpoints in nftables notation, for example `10.0.0.5 . 80`. The list is not empty. */
  readonly endpoints: readonly string[];
  /** Whether a client always reaches the same endpoint, as long as the endpoints do not change (sessionAffinity ClientIP). */
  readonly isSticky: boolean;
}

export interface UnforwardedService {
  readonly service: string;
  readonly part?: string;
  readonly reason: string;
}

export interface Ranges {
  readonly services: Network;
  /** Address of the name server. No Service may use this address. */
  readonly dns: string;
}

const PORT_MAX = 65_535;
/** Maximum number of endpoints of a port. Each number of endpoints needs a chain in the kernel. */
const ENDPOINTS_MAX = 256;
/** Limits of elements in the kernel's maps. nft writes 20,000 within a second. */
const [SERVICE_ELEMENTS_MAX, NAMESPACE_ELEMENTS_MAX] = [20_000, 100_000];
/** Range of node ports. Source: kube-apiserver, default of --service-node-port-range. */
const [NODE_PORT_MIN, NODE_PORT_MAX] = [30_000, 32_767];
/** Matches this-host, loopback, link-local, multicast, reserved and broadcast addresses. */
const NON_ENDPOINT = /^(?:0|127|169\.254|22[4-9]|23\d|24\d|25[0-5])\./;

function isPort(port: number | undefined): port is number {
  return port !== undefined && Number.isInteger(port) && port >= 1 && port <= PORT_MAX;
}

function parseProtocol(text = "TCP"): "tcp" | "udp" | undefined {
  if (text === "TCP") return "tcp";
  return text === "UDP" ? "udp" : undefined;
}

export function isEndpoint(address: string, { services }: Ranges): boolean {
  return isIPv4(address) && !NON_ENDPOINT.test(address) && !containsAddress(services, address);
}

/** Returns the first address of each endpoint in the state; `serving` selects terminating endpoints that still serve. Source: KEP-1669. */
function selectAddresses({ endpoints = [] }: EndpointSlice, state: "ready" | "serving") {
  return endpoints.flatMap(({ addresses, conditions = {} }) => {
    const { ready = true, serving = ready, terminating = false } = conditions;
    const isSelected = state === "ready" ? ready : serving && terminating;
    return isSelected ? addresses.slice(0, 1) : [];
  });
}

const portByName = memoize(({ ports = [] }: EndpointSlice) =>
  firstByKey(ports, ({ name = "", protocol = "TCP" }) => `${protocol} ${name}`),
);

function listEndpoints(
  { name = "", protocol = "TCP" }: ServicePort,
  slices: readonly EndpointSlice[],
  ranges: Ranges,
): readonly string[] {
  const listTargets = (state: "ready" | "serving"): readonly string[] =>
    slices
      .filter(({ addressType }) => addressType === "IPv4")
      .flatMap((slice) => {
        const slicePort = portByName(slice).get(`${protocol} ${name}`);
        if (slicePort === undefined || !isPort(slicePort.port)) return [];
        const { port } = slicePort;
        return selectAddresses(slice, state)
          .filter((address) => isEndpoint(address, ranges))
          .map((address) => `${address} . ${String(port)}`);
      });
  const readyEndpoints = listTargets("ready");
  const endpoints = readyEndpoints.length > 0 ? readyEndpoints : listTargets("serving");
  return [...new Set(endpoints)].sort().slice(0, ENDPOINTS_MAX);
}

function findNodePort({ nodePort }: ServicePort, { spec }: Service): number | undefined {
  const hasNodePorts = spec.type === "NodePort" || spec.type === "LoadBalancer";
  const isValid = isPort(nodePort) && nodePort >= NODE_PORT_MIN && nodePort <= NODE_PORT_MAX;
  return hasNodePorts && isValid ? nodePort : undefined;
}

function isForwarded({ metadata, spec }: Service, { services, dns }: Ranges): boolean {
  const address = spec.clusterIP ?? "";
  return (
    metadata.deletionTimestamp === undefined &&
    spec.type !== "ExternalName" &&
    isIPv4(address) &&
    containsAddress(services, address) &&
    address !== dns
  );
}

export function listForwards(
  service: Service,
  slices: readonly EndpointSlice[],
  ranges: Ranges,
): readonly Forward[] {
  if (!isForwarded(service, ranges)) return [];
  const { metadata, spec } = service;
  const key = `${metadata.namespace ?? ""}/${metadata.name}`;
  return (spec.ports ?? []).flatMap((port): readonly Forward[] => {
    const protocol = parseProtocol(port.protocol);
    const endpoints = listEndpoints(port, slices, ranges);
    if (protocol === undefined || !isPort(port.port) || endpoints.length === 0) return [];
    const nodePort = findNodePort(port, service);
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

/** Drops forwards with a duplicate address or node port, because nft would reject the whole table. */
export function dropDuplicates(forwards: readonly Forward[]): readonly Forward[] {
  const seenKeys = new Set<string>();
  const isNew = (...keys: readonly string[]): boolean => {
    if (keys.some((key) => seenKeys.has(key))) return false;
    for (const key of keys) seenKeys.add(key);
    return true;
  };
  return [...forwards]
    .sort((left, right) => (left.name < right.name ? -1 : 1))
    .filter(({ protocol, address, port, nodePort }) =>
      isNew(
        `${address} ${protocol} ${String(port)}`,
        ...(nodePort === undefined ? [] : [`${protocol} ${String(nodePort)}`]),
      ),
    );
}

function serviceOf({ name }: Forward): string {
  return name.slice(0, name.lastIndexOf(":"));
}

export interface ListeningPort {
  readonly protocol: Forward["protocol"];
  readonly port: number;
  readonly isLoopback: boolean;
}

export const HOST_PORTS_CHECK_MS = 30_000;

/** Creates a lookup that reads the listening ports again only for new node ports, or after a while, because the kernel walks all sockets. */
export function createHostPortLookup(
  clock: Pick<Clock, "monotonicMs">,
  read: () => Promise<readonly ListeningPort[]>,
): (nodePorts: readonly number[]) => Promise<readonly ListeningPort[]> {
  let last = { atMs: -Infinity, checked: new Set<number>(), ports: [] as readonly ListeningPort[] };
  return async (nodePorts) => {
    const atMs = clock.monotonicMs();
    const isDue = atMs - last.atMs >= HOST_PORTS_CHECK_MS;
    if (nodePorts.some((port) => isDue || !last.checked.has(port)))
      last = { atMs, checked: new Set(nodePorts), ports: await read() };
    return last.ports;
  };
}

/** Drops node ports on which processes of the host listen, because a Service must not receive their connections. */
export function dropHostPorts(
  forwards: readonly Forward[],
  listeningPorts: readonly ListeningPort[],
): { readonly forwards: readonly Forward[]; readonly leftOut: readonly UnforwardedService[] } {
  const keyOfPort = (protocol: string, port: number): string => `${protocol}/${String(port)}`;
  const hostPorts = new Set(
    listeningPorts
      .filter(({ isLoopback }) => !isLoopback)
      .map(({ protocol, port }) => keyOfPort(protocol, port)),
  );
  const leftOut: UnforwardedService[] = [];
  const remaining = forwards.map((forward) => {
    const { nodePort, ...others } = forward;
    if (nodePort === undefined || !hostPorts.has(keyOfPort(forward.protocol, nodePort)))
      return forward;
    const part = `node port ${String(nodePort)}/${forward.protocol}`;
    const reason =
      "a process of the node listens on this port; choose another node port, or end the process";
    leftOut.push({ service: serviceOf(forward), part, reason });
    return others;
  });
  return { forwards: remaining, leftOut };
}

function countElements(forwards: readonly Forward[]): number {
  return forwards.reduce(
    (sum, { endpoints, nodePort }) =>
      sum + (1 + endpoints.length) * (nodePort === undefined ? 1 : 2),
    0,
  );
}

export function limitForwards(forwards: readonly Forward[]): {
  readonly forwardsByService: ReadonlyMap<string, readonly Forward[]>;
  readonly leftOut: readonly UnforwardedService[];
} {
  const forwardsByService = Map.groupBy(forwards, serviceOf);
  const elementsByNamespace = new Map<string, number>();
  const leftOut: UnforwardedService[] = [];
  for (const [service, own] of forwardsByService) {
    const [namespace = ""] = service.split("/");
    const elements = countElements(own);
    const total = (elementsByNamespace.get(namespace) ?? 0) + elements;
    if (elements <= SERVICE_ELEMENTS_MAX && total <= NAMESPACE_ELEMENTS_MAX) {
      elementsByNamespace.set(namespace, total);
      continue;
    }
    const reason =
      elements > SERVICE_ELEMENTS_MAX
        ? `its ports and endpoints need ${String(elements)} map elements, the limit is ${String(SERVICE_ELEMENTS_MAX)}; use fewer ports or endpoints`
        : `the Services of its namespace need more than ${String(NAMESPACE_ELEMENTS_MAX)} map elements; delete other Services`;
    leftOut.push({ service, reason });
    forwardsByService.delete(service);
  }
  return { forwardsByService, leftOut };
}
