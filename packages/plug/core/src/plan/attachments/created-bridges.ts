// SPDX-License-Identifier: Apache-2.0
// Bridges of a node that plugins create during ADD. No plugin removes them, and an administrator's bridge may have any name.
import type { NetworkConfigList } from "../../ports/cni.ts";
import type { Link } from "../../ports/node/pod-network.ts";
import { listNamedBridges } from "./tenant-policy.ts";

/** A bridge that did not exist before an ADD and existed after it. */
export interface CreatedBridge {
  readonly name: string;
  /** ifindex: the kernel gives it to no other link until the next boot. */
  readonly index: number;
}

/** Bridges that the configurations name and the node does not have, sorted. */
export function findAbsentBridges(
  configs: readonly NetworkConfigList[],
  links: readonly Pick<Link, "name">[],
): readonly string[] {
  const existing = new Set(links.map(({ name }) => name));
  const absent = configs.flatMap(listNamedBridges).filter((name) => !existing.has(name));
  return [...new Set(absent)].sort();
}

/** Those of the absent bridges that exist now. */
export function findCreatedBridges(
  absent: readonly string[],
  links: readonly Pick<Link, "name" | "index" | "kind">[],
): readonly CreatedBridge[] {
  return links
    .filter(({ name, kind }) => kind === "bridge" && absent.includes(name))
    .map(({ name, index }) => ({ name, index }));
}

/** Names of created bridges that can be removed, and of those that have a port and stay. */
export function planBridgeRemoval(
  created: readonly CreatedBridge[],
  links: readonly Pick<Link, "name" | "index" | "master">[],
): { readonly remove: readonly string[]; readonly inUse: readonly string[] } {
  const own = links
    .filter((link) => created.some(({ name, index }) => link.name === name && link.index === index))
    .map(({ name }) => name)
    .sort();
  const hasPort = (bridge: string): boolean => links.some(({ master }) => master === bridge);
  return { remove: own.filter((name) => !hasPort(name)), inUse: own.filter(hasPort) };
}
