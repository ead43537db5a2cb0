// SPDX-License-Identifier: Apache-2.0
// What do the fields of a Service mean?
import { type Fields, textAt, valueAt } from "../../objects/json.ts";

/** Whether it has no address of its own: its name stands for those of its endpoints. */
export function isHeadless(spec: Fields): boolean {
  return textAt(spec, "clusterIP") === "None";
}

/** Whether it has an address of the cluster, or is to get one. */
export function hasAddress(spec: Fields): boolean {
  return !isHeadless(spec) && textAt(spec, "type") !== "ExternalName";
}

/** Whether its ports are ports of the node too. */
export function hasNodePorts(spec: Fields): boolean {
  const type = textAt(spec, "type");
  const isSpared = spec["allocateLoadBalancerNodePorts"] === false;
  return type === "NodePort" || (type === "LoadBalancer" && !isSpared);
}

/** What tells ports of one Service apart. */
export function portKey(port: unknown): string {
  return `${textAt(port, "protocol")}/${String(valueAt(port, "port"))}`;
}

/** The port of the node; 0: none yet. */
export function nodePortOf(port: unknown): number {
  return Number(valueAt(port, "nodePort") ?? 0);
}
