// SPDX-License-Identifier: Apache-2.0
// Bridges that CNI plugins create on the node during ADD and never remove. net-agent and the node's runtime record them, so that
// the supervisor's cleanup removes these bridges and not an administrator's bridges.
import type { NetworkConfigList } from "../../interfaces/cni.ts";
import type { Link } from "../../interfaces/node/pod-network.ts";
import { listNamedBridges } from "./tenant-policy.ts";

export interface CreatedBridge {
  readonly name: string;
  /** ifindex of the bridge. A later bridge with the same name has a different ifindex. */
  readonly index: number;
}

export function findAbsentBridges(
  configs: readonly NetworkConfigList[],
  links: readonly Pick<Link, "name">[],
): readonly string[] {
  const existing = new Set(links.map(({ name }) => name));
  const absent = configs.flatMap(listNamedBridges).filter((name) => !existing.has(name));
  return [...new Set(absent)].sort();
}

export function findCreatedBridges(
  absent: readonly string[],
  links: readonly Pick<Link, "name" | "index" | "kind">[],
): readonly CreatedBridge[] {
  return links
    .filter(({ name, kind }) => kind === "bridge" && absent.includes(name))
    .map(({ name, index }) => ({ name, index }));
}

export function planBridgeRemoval(
  created: readonly CreatedBridge[],
  links: readonly Pick<Link, "name" | "index" | "master">[],
): { readonly remove: readonly string[]; readonly inUse: readonly string[] } {
  const createdNames = links
    .filter((link) => created.some(({ name, index }) => link.name === name && link.index === index))
    .map(({ name }) => name)
    .sort();
  const hasPort = (bridge: string): boolean => links.some(({ master }) => master === bridge);
  return {
    remove: createdNames.filter((name) => !hasPort(name)),
    inUse: createdNames.filter(hasPort),
  };
}
