// SPDX-License-Identifier: Apache-2.0
// Hooks to call at a hook point, in order and with their protocol versions. Source: KubeVirt pkg/hooks info,
// manager.go.
import type { HookInfo, HookPoint, HookVersion } from "../interfaces/node/hook-sidecars.ts";

const PROTOCOL_VERSIONS: readonly HookVersion[] = ["v1alpha3", "v1alpha2"];

/** Source: KubeVirt pkg/hooks/info. */
const HOOK_POINTS: readonly HookPoint[] = ["OnDefineDomain", "PreCloudInitIso", "Shutdown"];

const REPORTED_TEXT_MAX = 63;

export interface Subscriber {
  readonly container: string;
  readonly info: HookInfo;
}

export interface Subscription {
  readonly container: string;
  readonly hook: string;
  readonly version: HookVersion;
}

export function buildHookName(container: string, info?: HookInfo): string {
  const reportedName = (info?.name ?? "").replaceAll(/[^\w.-]/g, "").slice(0, REPORTED_TEXT_MAX);
  return reportedName === "" ? container : `${reportedName} (${container})`;
}

function findVersion({ versions }: HookInfo): HookVersion | undefined {
  return PROTOCOL_VERSIONS.find((version) => versions.includes(version));
}

/** Returns a phrase that explains why Patchbay never calls the sidecar. Undefined if Patchbay calls it. */
export function subscriptionProblem({ versions, hookPoints }: HookInfo): string | undefined {
  if (findVersion({ name: "", versions, hookPoints }) === undefined) {
    const reportedVersions =
      versions.length === 0 ? "none" : versions.join(", ").slice(0, REPORTED_TEXT_MAX);
    return `it speaks no version of the protocol that is known (${reportedVersions}); use ${PROTOCOL_VERSIONS.join(" or ")}`;
  }
  const isCalled = hookPoints.some(({ name }) => HOOK_POINTS.some((point) => point === name));
  return isCalled ? undefined : `it names no hook point; name ${HOOK_POINTS.join(", ")}`;
}

function findPriority(point: HookPoint, { hookPoints }: HookInfo): number | undefined {
  return hookPoints.find(({ name }) => name === point)?.priority;
}

function compareNames(left: string, right: string): number {
  if (left === right) return 0;
  return left < right ? -1 : 1;
}

export function subscribersAt(
  point: HookPoint,
  subscribers: readonly Subscriber[],
): readonly Subscription[] {
  return subscribers
    .flatMap(({ container, info }) => {
      const priority = findPriority(point, info);
      const version = findVersion(info);
      // Protocol version v1alpha2 has no hook point Shutdown. Source: KubeVirt pkg/hooks manager.go.
      const isSupported = point !== "Shutdown" || version === "v1alpha3";
      if (priority === undefined || version === undefined || !isSupported) return [];
      return [
        { container, hook: buildHookName(container, info), version, priority, name: info.name },
      ];
    })
    .toSorted(
      (left, right) =>
        right.priority - left.priority ||
        compareNames(left.name, right.name) ||
        compareNames(left.container, right.container),
    )
    .map(({ container, hook, version }) => ({ container, hook, version }));
}
