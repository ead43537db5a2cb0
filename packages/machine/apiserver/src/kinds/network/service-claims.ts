// SPDX-License-Identifier: Apache-2.0
// What Services share: addresses of the cluster, and ports of the node. Each is given to one Service at a time, in the
// mutation that writes it; what is given stands in the Services, and nowhere else.
import type { Cause } from "../../meta/status.ts";
import { invalidValue } from "../../meta/causes.ts";
import { type Fields, fieldsOf, isFields, listOf, textAt } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import type { Claims } from "../kind.ts";
import { hasAddress, hasNodePorts, nodePortOf, portKey } from "./service-spec.ts";

/** Source: kube-apiserver, default of --service-node-port-range. */
const [NODE_PORT_MIN, NODE_PORT_MAX] = [30_000, 32_767];
/** Of each network of Services: the API server's and the name server's, as a cluster has them. */
const RESERVED: readonly number[] = [1, 10];

function numberOf(address: string): number {
  return address.split(".").reduce((sum, byte) => sum * 256 + Number(byte), 0);
}

function printAddress(number: number): string {
  return [24, 16, 8, 0].map((shift) => String(Math.floor(number / 2 ** shift) % 256)).join(".");
}

/** The first number, by chance, from `min` on that is free; undefined: none is. */
function takeFree(
  { min, max }: { readonly min: number; readonly max: number },
  isTaken: (number: number) => boolean,
  random: () => number,
): number | undefined {
  const count = max - min + 1;
  const start = Math.floor(random() * count);
  for (let step = 0; step < count; step += 1) {
    const number = min + ((start + step) % count);
    if (!isTaken(number)) return number;
  }
  return undefined;
}

function addressCause(address: string, why: string): Cause {
  const message = `failed to allocate IP ${address}: ${why}`;
  return invalidValue("spec.clusterIPs", [address], message);
}

/** First and last number of a network that can be given. */
function rangeOf(network: string): { readonly min: number; readonly max: number } {
  const [address = "", length = "32"] = network.split("/");
  const first = numberOf(address);
  return { min: first + 1, max: first + 2 ** (32 - Number(length)) - 2 };
}

/** Gives an address, or judges the one that is asked for. Changes `spec`. */
function claimAddress(
  spec: Fields,
  current: Fields | undefined,
  { others, network, random }: Claims,
): readonly Cause[] {
  if (!hasAddress(spec)) return [];
  const asked = textAt(spec, "clusterIP");
  if (asked !== "" && asked === textAt(current, "clusterIP")) return [];
  const range = rangeOf(network);
  const taken = new Set(others().map((other) => textAt(other, "spec", "clusterIP")));
  const isTaken = (number: number): boolean =>
    RESERVED.includes(number - range.min + 1) || taken.has(printAddress(number));
  if (asked !== "") {
    const number = numberOf(asked);
    if (number < range.min || number > range.max)
      return [addressCause(asked, `the range of valid addresses is ${network}`)];
    return isTaken(number) ? [addressCause(asked, "provided IP is already allocated")] : [];
  }
  const free = takeFree(range, isTaken, random);
  if (free === undefined) return [addressCause("", `no address of ${network} is free`)];
  spec["clusterIP"] = printAddress(free);
  spec["clusterIPs"] = [spec["clusterIP"]];
  return [];
}

function nodePortKey(port: unknown): string {
  return `${textAt(port, "protocol")}/${String(nodePortOf(port))}`;
}

function portsOf(spec: Fields | undefined): readonly Fields[] {
  return listOf(spec?.["ports"]).filter(isFields);
}

/** Why a port that is asked for cannot be had. */
function nodePortFault(port: Fields, taken: ReadonlySet<string>): string | undefined {
  const number = nodePortOf(port);
  if (number < NODE_PORT_MIN || number > NODE_PORT_MAX)
    return `provided port is not in the valid range. The range of valid ports is ${String(NODE_PORT_MIN)}-${String(NODE_PORT_MAX)}`;
  return taken.has(nodePortKey(port)) ? "provided port is already allocated" : undefined;
}

function freeNodePort(
  protocol: string,
  taken: ReadonlySet<string>,
  random: () => number,
): number | undefined {
  const isTaken = (number: number): boolean => taken.has(`${protocol}/${String(number)}`);
  return takeFree({ min: NODE_PORT_MIN, max: NODE_PORT_MAX }, isTaken, random);
}

/** Gives ports of the node where none are named. Changes `spec`. */
function claimNodePorts(
  spec: Fields,
  current: Fields | undefined,
  { others, random }: Claims,
): readonly Cause[] {
  if (!hasNodePorts(spec)) return [];
  const taken = new Set(
    others().flatMap((other) => portsOf(fieldsOf(other["spec"])).map(nodePortKey)),
  );
  // Thousands of ports of one Service would each be told so after a look at all ports of the node.
  const isFull = new Set<string>();
  const own = new Map(portsOf(current).map((port) => [portKey(port), nodePortOf(port)]));
  return portsOf(spec).flatMap((port, index): readonly Cause[] => {
    const field = `spec.ports[${String(index)}].nodePort`;
    const kept = own.get(portKey(port)) ?? 0;
    if (nodePortOf(port) === 0 && kept !== 0) port["nodePort"] = kept;
    if (nodePortOf(port) === 0) {
      const protocol = textAt(port, "protocol");
      const free = isFull.has(protocol) ? undefined : freeNodePort(protocol, taken, random);
      if (free === undefined) {
        isFull.add(protocol);
        return [invalidValue(field, 0, "no port of the node is free")];
      }
      port["nodePort"] = free;
    } else if (nodePortOf(port) !== kept) {
      const fault = nodePortFault(port, taken);
      if (fault !== undefined) return [invalidValue(field, nodePortOf(port), fault)];
    }
    taken.add(nodePortKey(port));
    return [];
  });
}

/** Gives a Service what it shares with others, or says why it cannot have it. Changes `service`. */
export function claimForService(
  service: KubeObject,
  current: KubeObject | undefined,
  claims: Claims,
): readonly Cause[] {
  const spec = fieldsOf(service["spec"]);
  const before = current === undefined ? undefined : fieldsOf(current["spec"]);
  return [...claimAddress(spec, before, claims), ...claimNodePorts(spec, before, claims)];
}
