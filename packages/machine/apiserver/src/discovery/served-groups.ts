// SPDX-License-Identifier: Apache-2.0
// Served API groups and their versions, in order of priority.
import type { Priority } from "../aggregation/api-services.ts";

const VERSION = /^v(\d+)(?:(alpha|beta)(\d+))?$/;

function rankOf(version: string): readonly number[] {
  const match = VERSION.exec(version);
  if (match === null) {
    return [3, 0, 0];
  }
  const [, major = "0", stage, minor = "0"] = match;
  const stages: Readonly<Record<string, number>> = { beta: 1, alpha: 2 };
  return [stage === undefined ? 0 : (stages[stage] ?? 2), -Number(major), -Number(minor)];
}

/** Orders versions as Kubernetes does: v10, v2, v1, v1beta2, v1alpha1, others by name. */
export function compareVersions(left: string, right: string): number {
  const [a, b] = [rankOf(left), rankOf(right)];
  const at = a.findIndex((rank, index) => rank !== b[index]);
  return at < 0 ? left.localeCompare(right) : (a[at] ?? 0) - (b[at] ?? 0);
}

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
