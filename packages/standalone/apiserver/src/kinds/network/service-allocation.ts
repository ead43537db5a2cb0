// SPDX-License-Identifier: Apache-2.0
// Allocation of cluster IPs and node ports. The values in use are read from the stored Services.
import type { Cause } from "../../meta/status.ts";
import { invalidValue } from "../../meta/causes.ts";
import { type Fields, asFields, isFields, asList, textAt, valueAt } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import type { ClaimContext } from "../kind.ts";

/** Returns whether the Service has no cluster IP, so that its DNS name resolves to its endpoints. */
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

/** Returns the node port, or 0 if no node port is allocated. */
export function nodePortOf(port: unknown): number {
  return Number(valueAt(port, "nodePort") ?? 0);
}

/** Range of node ports. Source: kube-apiserver, default of --service-node-port-range. */
const [NODE_PORT_MIN, NODE_PORT_MAX] = [30_000, 32_767];
const NODE_PORTS: NumberRange = {
  min: NODE_PORT_MIN,
  max: NODE_PORT_MAX,
  requestedCount: computeRequestedCount(NODE_PORT_MAX - NODE_PORT_MIN + 1, {
    divisor: 32,
    max: 128,
  }),
};
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

/** Returns a free number, or undefined. Tries the numbers that are left for explicit requests last. */
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

function allocateAddress(
  spec: Fields,
  current: Fields | undefined,
  { otherObjects, network, random }: ClaimContext,
): readonly Cause[] {
  if (!hasAddress(spec)) return [];
  const requested = textAt(spec, "clusterIP");
  if (requested !== "" && requested === textAt(current, "clusterIP")) return [];
  const range = usableRange(network);
  const inUse = new Set(otherObjects().map((service) => textAt(service, "spec", "clusterIP")));
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

function allocateNodePorts(
  spec: Fields,
  current: Fields | undefined,
  { otherObjects, random }: ClaimContext,
): readonly Cause[] {
  if (!hasNodePorts(spec)) return [];
  const inUse = new Set(
    otherObjects().flatMap((service) => portFields(asFields(service["spec"])).map(nodePortKey)),
  );
  // Protocols without a free port. For further ports of these protocols, the range is not scanned again.
  const exhaustedProtocols = new Set<string>();
  const currentPorts = new Map(
    portFields(current).map((port) => [portKey(port), nodePortOf(port)]),
  );
  return portFields(spec).flatMap((port, index): readonly Cause[] => {
    const field = `spec.ports[${String(index)}].nodePort`;
    const currentPort = currentPorts.get(portKey(port)) ?? 0;
    if (nodePortOf(port) === 0 && currentPort !== 0) port["nodePort"] = currentPort;
    if (nodePortOf(port) === 0) {
      const protocol = textAt(port, "protocol");
      const freePort = exhaustedProtocols.has(protocol)
        ? undefined
        : findFreeNodePort(protocol, inUse, random);
      if (freePort === undefined) {
        exhaustedProtocols.add(protocol);
        return [invalidValue(field, 0, "no port of the node is free")];
      }
      port["nodePort"] = freePort;
    } else if (nodePortOf(port) !== currentPort) {
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
  const spec = asFields(service["spec"]);
  const currentSpec = current === undefined ? undefined : asFields(current["spec"]);
  return [
    ...allocateAddress(spec, currentSpec, context),
    ...allocateNodePorts(spec, currentSpec, context),
  ];
}
