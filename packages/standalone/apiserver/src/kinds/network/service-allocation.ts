// SPDX-License-Identifier: Apache-2.0
// Allocation of cluster IPs and node ports, of which each namespace has a share. The stored Services contain the values in use.
import { isIPv4 } from "node:net";
import { type PoolLimits, SHARE_KEYS, SharePool } from "@patchbay/base";
import type { Cause } from "../../meta/status.ts";
import { forbiddenValue, invalidValue } from "../../meta/causes.ts";
import { type Fields, asFields, isFields, asList, textAt, valueAt } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import type { ClaimContext } from "../kind.ts";

export function isHeadless(spec: Fields): boolean {
  return textAt(spec, "clusterIP") === "None";
}

function hasAddress(spec: Fields): boolean {
  return !isHeadless(spec) && textAt(spec, "type") !== "ExternalName";
}

export function hasNodePorts(spec: Fields): boolean {
  const type = textAt(spec, "type");
  const isDisabled = spec["allocateLoadBalancerNodePorts"] === false;
  return type === "NodePort" || (type === "LoadBalancer" && !isDisabled);
}

export function portKey(port: unknown): string {
  return `${textAt(port, "protocol")}/${String(valueAt(port, "port"))}`;
}

export function nodePortOf(port: unknown): number {
  return Number(valueAt(port, "nodePort") ?? 0);
}

/** Range of node ports. Source: kube-apiserver, default of --service-node-port-range. */
const [NODE_PORT_MIN, NODE_PORT_MAX] = [30_000, 32_767];
const NODE_PORT_COUNT = NODE_PORT_MAX - NODE_PORT_MIN + 1;
const NODE_PORTS: NumberRange = {
  min: NODE_PORT_MIN,
  max: NODE_PORT_MAX,
  requestedCount: computeRequestedCount(NODE_PORT_COUNT, { divisor: 32, max: 128 }),
};
/** Limits of the node ports of each protocol. One Service with the maximum number of ports uses the share. */
const NODE_PORT_LIMITS: PoolLimits = { max: NODE_PORT_COUNT, share: 256, reserve: 256 };
/** Offsets of the API server and the DNS server in the Service network, as in kubeadm clusters. */
const RESERVED_OFFSETS: readonly number[] = [1, 10];

function addressToNumber(address: string): number {
  return address.split(".").reduce((sum, byte) => sum * 256 + Number(byte), 0);
}

function numberToAddress(number: number): string {
  return [24, 16, 8, 0].map((shift) => String(Math.floor(number / 2 ** shift) % 256)).join(".");
}

interface NumberRange {
  readonly min: number;
  readonly max: number;
  /** Number of values at the start of the range that are left for explicit requests. Automatic assignment uses them last. */
  readonly requestedCount: number;
}

/** Returns how many values are assigned last, so that they stay free for explicit requests. Source: kube-apiserver calculateRangeOffset. */
function computeRequestedCount(
  size: number,
  { divisor, max }: { readonly divisor: number; readonly max: number },
): number {
  const min = 16;
  return size <= min ? 0 : Math.min(max, Math.max(min, Math.floor(size / divisor)));
}

function findFree(
  { min, max, requestedCount }: NumberRange,
  isInUse: (number: number) => boolean,
  random: () => number,
): number | undefined {
  const firstAutomatic = min + requestedCount;
  const count = max - firstAutomatic + 1;
  const startOffset = Math.floor(random() * count);
  for (let offset = 0; offset < count; offset += 1) {
    const number = firstAutomatic + ((startOffset + offset) % count);
    if (!isInUse(number)) return number;
  }
  for (let number = min; number < firstAutomatic; number += 1) if (!isInUse(number)) return number;
  return undefined;
}

function addressCause(address: string, reason: string): Cause {
  const message = `failed to allocate IP ${address}: ${reason}`;
  return invalidValue("spec.clusterIPs", [address], message);
}

function usableRange(network: string): NumberRange {
  const [address = "", length = "32"] = network.split("/");
  const networkNumber = addressToNumber(address);
  const size = 2 ** (32 - Number(length));
  const requestedCount = computeRequestedCount(size, { divisor: 16, max: 256 });
  return { min: networkNumber + 1, max: networkNumber + size - 2, requestedCount };
}

/** Maximum number of Services of a namespace. Source: Kubernetes, scalability thresholds. */
const NAMESPACE_SERVICES_MAX = 5000;
/** Networks up to this size are not divided, because the shares would be too small. */
const UNDIVIDED_MAX = 64;

function addressLimits({ min, max }: NumberRange): PoolLimits {
  const size = max - min + 1;
  if (size <= UNDIVIDED_MAX) return { max: Infinity, share: Infinity };
  const share = Math.min(NAMESPACE_SERVICES_MAX, Math.max(UNDIVIDED_MAX, Math.floor(size / 8)));
  return { max: size, share, reserve: Math.floor(size / 16) };
}

class ValueShares {
  readonly #what: string;
  readonly #limits: PoolLimits;
  readonly #namespace: string;
  readonly #pool: SharePool;

  constructor(what: string, limits: PoolLimits, namespace: string) {
    this.#what = what;
    this.#limits = limits;
    this.#namespace = namespace;
    this.#pool = new SharePool({ ...limits, systemShare: limits.max });
  }

  count(namespace: string, amount: number): void {
    this.#pool.spend(SHARE_KEYS.namespace(namespace), amount);
  }

  /** Counts one more value for the namespace. Returns the reason if it has none left. */
  take(): string | undefined {
    const key = SHARE_KEYS.namespace(this.#namespace);
    const shortage = this.#pool.findShortage(key);
    this.#pool.spend(key, 1);
    const { max, share, reserve = 0 } = this.#limits;
    if (shortage === undefined) return undefined;
    return shortage === "share"
      ? `namespace ${this.#namespace} may have ${String(share)} of the ${String(max)} ${this.#what}; delete Services of this namespace`
      : `the namespaces of users have used the ${String(max - reserve)} ${this.#what} that they may have together`;
  }
}

interface Allocation {
  readonly spec: Fields;
  readonly current: Fields | undefined;
  readonly namespace: string;
}

function namespaceOf({ metadata }: KubeObject): string {
  return metadata.namespace ?? "";
}

function allocateAddress(
  { spec, current, namespace }: Allocation,
  { otherObjects, network, random }: ClaimContext,
): readonly Cause[] {
  if (!hasAddress(spec)) return [];
  const requested = textAt(spec, "clusterIP");
  if (requested !== "" && requested === textAt(current, "clusterIP")) return [];
  const range = usableRange(network);
  const shares = new ValueShares(`addresses of ${network}`, addressLimits(range), namespace);
  const inUse = new Set<string>();
  for (const service of otherObjects()) {
    const address = textAt(service, "spec", "clusterIP");
    if (!isIPv4(address)) continue;
    inUse.add(address);
    shares.count(namespaceOf(service), 1);
  }
  const shortage = shares.take();
  if (shortage !== undefined) return [forbiddenValue("spec.clusterIPs", shortage)];
  const isInUse = (number: number): boolean =>
    RESERVED_OFFSETS.includes(number - range.min + 1) || inUse.has(numberToAddress(number));
  if (requested !== "") {
    const number = addressToNumber(requested);
    if (number < range.min || number > range.max)
      return [addressCause(requested, `the range of valid addresses is ${network}`)];
    return isInUse(number) ? [addressCause(requested, "provided IP is already allocated")] : [];
  }
  const freeNumber = findFree(range, isInUse, random);
  if (freeNumber === undefined) return [addressCause("", `no address of ${network} is free`)];
  spec["clusterIP"] = numberToAddress(freeNumber);
  spec["clusterIPs"] = [spec["clusterIP"]];
  return [];
}

function nodePortKey(port: unknown): string {
  return `${textAt(port, "protocol")}/${String(nodePortOf(port))}`;
}

function portFields(spec: Fields | undefined): readonly Fields[] {
  return asList(spec?.["ports"]).filter(isFields);
}

function nodePortFault(port: Fields, inUse: ReadonlySet<string>): string | undefined {
  const number = nodePortOf(port);
  if (number < NODE_PORT_MIN || number > NODE_PORT_MAX)
    return `provided port is not in the valid range. The range of valid ports is ${String(NODE_PORT_MIN)}-${String(NODE_PORT_MAX)}`;
  return inUse.has(nodePortKey(port)) ? "provided port is already allocated" : undefined;
}

function findFreeNodePort(
  protocol: string,
  inUse: ReadonlySet<string>,
  random: () => number,
): number | undefined {
  const isInUse = (number: number): boolean => inUse.has(`${protocol}/${String(number)}`);
  return findFree(NODE_PORTS, isInUse, random);
}

type ProtocolShares = (protocol: string) => ValueShares;

function countNodePorts(services: readonly KubeObject[], namespace: string): ProtocolShares {
  const shares = new Map<string, ValueShares>();
  const sharesOf: ProtocolShares = (protocol) => {
    const found =
      shares.get(protocol) ??
      new ValueShares(`${protocol} ports of the node`, NODE_PORT_LIMITS, namespace);
    shares.set(protocol, found);
    return found;
  };
  for (const service of services) {
    const ports = portFields(asFields(service["spec"])).filter((port) => nodePortOf(port) !== 0);
    for (const port of ports) sharesOf(textAt(port, "protocol")).count(namespaceOf(service), 1);
  }
  return sharesOf;
}

function retainNodePorts(
  { spec, current, namespace }: Allocation,
  sharesOf: ProtocolShares,
): ReadonlySet<Fields> {
  const currentPorts = new Map(
    portFields(current).map((port) => [portKey(port), nodePortOf(port)]),
  );
  const newPorts = portFields(spec).filter((port) => {
    const currentPort = currentPorts.get(portKey(port)) ?? 0;
    if (nodePortOf(port) === 0 && currentPort !== 0) port["nodePort"] = currentPort;
    const isRetained = currentPort !== 0 && nodePortOf(port) === currentPort;
    if (isRetained) sharesOf(textAt(port, "protocol")).count(namespace, 1);
    return !isRetained;
  });
  return new Set(newPorts);
}

function allocateNodePorts(
  allocation: Allocation,
  { otherObjects, random }: ClaimContext,
): readonly Cause[] {
  const { spec, namespace } = allocation;
  if (!hasNodePorts(spec)) return [];
  const services = otherObjects();
  const inUse = new Set(
    services.flatMap((service) => portFields(asFields(service["spec"])).map(nodePortKey)),
  );
  const sharesOf = countNodePorts(services, namespace);
  const newPorts = retainNodePorts(allocation, sharesOf);
  // Protocols without a port for this Service. Their further ports need no other cause and no scan of the range.
  const [refusedProtocols, exhaustedProtocols] = [new Set<string>(), new Set<string>()];
  return portFields(spec).flatMap((port, index): readonly Cause[] => {
    const field = `spec.ports[${String(index)}].nodePort`;
    const protocol = textAt(port, "protocol");
    if (refusedProtocols.has(protocol)) return [];
    const shortage = newPorts.has(port) ? sharesOf(protocol).take() : undefined;
    if (shortage !== undefined) {
      refusedProtocols.add(protocol);
      return [forbiddenValue(field, shortage)];
    }
    if (nodePortOf(port) === 0) {
      const freePort = exhaustedProtocols.has(protocol)
        ? undefined
        : findFreeNodePort(protocol, inUse, random);
      if (freePort === undefined) {
        exhaustedProtocols.add(protocol);
        return [invalidValue(field, 0, "no port of the node is free")];
      }
      port["nodePort"] = freePort;
    } else if (newPorts.has(port)) {
      const fault = nodePortFault(port, inUse);
      if (fault !== undefined) return [invalidValue(field, nodePortOf(port), fault)];
    }
    inUse.add(nodePortKey(port));
    return [];
  });
}

/** Allocates the cluster IP and node ports of a Service. Changes `service`; returns all conflicts. */
export function allocateForService(
  service: KubeObject,
  current: KubeObject | undefined,
  context: ClaimContext,
): readonly Cause[] {
  const allocation: Allocation = {
    spec: asFields(service["spec"]),
    current: current === undefined ? undefined : asFields(current["spec"]),
    namespace: namespaceOf(service),
  };
  return [...allocateAddress(allocation, context), ...allocateNodePorts(allocation, context)];
}
