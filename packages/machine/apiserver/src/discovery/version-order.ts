// SPDX-License-Identifier: Apache-2.0
// Which version of a group comes first? Source: Kubernetes "Version priority" of CustomResourceDefinitions.

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
