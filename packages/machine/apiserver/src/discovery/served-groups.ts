// SPDX-License-Identifier: Apache-2.0
// Which groups are there, with which versions, and in which order?
import type { Priority } from "../aggregation/priorities.ts";
import { compareVersions } from "./version-order.ts";

/** A group and its versions, the preferred one first. */
export interface ServedGroup {
  readonly name: string;
  readonly versions: readonly string[];
}

/** The group of APIServices has none itself, and comes first. */
const FIRST = "apiregistration.k8s.io";

/** The highest that any version of a group asks for. */
function rankOfGroup(
  group: string,
  versions: readonly string[],
  priorityOf: (group: string, version: string) => Priority,
): number {
  return group === FIRST
    ? Number.MAX_SAFE_INTEGER
    : Math.max(...versions.map((version) => priorityOf(group, version).group));
}

/** Groups of kinds and of aggregated services, by their priorities, then by name; the core group is left out. */
export function groupsOf(
  groupVersions: Iterable<readonly [string, string]>,
  priorityOf: (group: string, version: string) => Priority,
): readonly ServedGroup[] {
  const groups = new Map<string, Set<string>>();
  for (const [group, version] of groupVersions) {
    const versions = groups.get(group) ?? new Set<string>();
    versions.add(version);
    groups.set(group, versions);
  }
  return [...groups]
    .filter(([name]) => name !== "")
    .map(([name, versions]) => ({
      name,
      rank: rankOfGroup(name, [...versions], priorityOf),
      versions: [...versions].sort(
        (left, right) =>
          priorityOf(name, right).version - priorityOf(name, left).version ||
          compareVersions(left, right),
      ),
    }))
    .sort((left, right) => right.rank - left.rank || (left.name < right.name ? -1 : 1))
    .map(({ name, versions }) => ({ name, versions }));
}
