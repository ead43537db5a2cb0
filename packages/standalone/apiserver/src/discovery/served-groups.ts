// SPDX-License-Identifier: Apache-2.0
import type { Priority } from "../aggregation/api-services.ts";

const VERSION = /^v(\d+)(?:(alpha|beta)(\d+))?$/;

function versionRank(version: string): readonly number[] {
  const match = VERSION.exec(version);
  if (match === null) {
    return [3, 0, 0];
  }
  const [, major = "0", stage, minor = "0"] = match;
  const stages: Readonly<Record<string, number>> = { beta: 1, alpha: 2 };
  return [stage === undefined ? 0 : (stages[stage] ?? 2), -Number(major), -Number(minor)];
}

/** Compares versions, preferred first. Source: Kubernetes "Version priority" of CustomResourceDefinitions. */
export function compareVersions(left: string, right: string): number {
  const [leftRank, rightRank] = [versionRank(left), versionRank(right)];
  const position = leftRank.findIndex((rank, index) => rank !== rightRank[index]);
  return position < 0
    ? left.localeCompare(right)
    : (leftRank[position] ?? 0) - (rightRank[position] ?? 0);
}

/** API group. The first version is the preferred version. */
export interface ServedGroup {
  readonly name: string;
  readonly versions: readonly string[];
}

/** Group that is always listed first. It has no APIService, and therefore no priority. */
const FIRST_GROUP = "apiregistration.k8s.io";

function groupRank(
  group: string,
  versions: readonly string[],
  findPriority: (group: string, version: string) => Priority,
): number {
  return group === FIRST_GROUP
    ? Number.MAX_SAFE_INTEGER
    : Math.max(...versions.map((version) => findPriority(group, version).group));
}

/** Returns the API groups and the versions of each group, both in order of priority. Excludes the core group. */
export function toServedGroups(
  groupVersions: Iterable<readonly [string, string]>,
  findPriority: (group: string, version: string) => Priority,
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
      rank: groupRank(name, [...versions], findPriority),
      versions: [...versions].sort(
        (left, right) =>
          findPriority(name, right).version - findPriority(name, left).version ||
          compareVersions(left, right),
      ),
    }))
    .sort((left, right) => right.rank - left.rank || (left.name < right.name ? -1 : 1))
    .map(({ name, versions }) => ({ name, versions }));
}
