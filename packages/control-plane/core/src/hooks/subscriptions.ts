// SPDX-License-Identifier: Apache-2.0
// Hooks that are called at a hook point, with their versions and order. Source: KubeVirt pkg/hooks info, manager.go.
import type { HookInfo, HookPoint, HookVersion } from "../interfaces/node/hook-sidecars.ts";

const VERSIONS: readonly HookVersion[] = ["v1alpha3", "v1alpha2"];

/** Supported hook points. Source: KubeVirt pkg/hooks/info. */
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
  const reported = (info?.name ?? "").replaceAll(/[^\w.-]/g, "").slice(0, REPORTED_TEXT_MAX);
  return reported === "" ? container : `${reported} (${container})`;
}

function findVersion({ versions }: HookInfo): HookVersion | undefined {
  return VERSIONS.find((version) => versions.includes(version));
}

/** Returns a phrase with the reason why the sidecar is never called; undefined if it is called. */
export function subscriptionProblem({ versions, hookPoints }: HookInfo): string | undefined {
  if (findVersion({ name: "", versions, hookPoints }) === undefined) {
    const reported =
      versions.length === 0 ? "none" : versions.join(", ").slice(0, REPORTED_TEXT_MAX);
    return `it speaks no version of the protocol that is known (${reported}); use ${VERSIONS.join(" or ")}`;
  }
  const isCalled = hookPoints.some(({ name }) => HOOK_POINTS.some((point) => point === name));
  return isCalled ? undefined : `it names no hook point; name ${HOOK_POINTS.join(", ")}`;
}

function priorityAt(point: HookPoint, { hookPoints }: HookInfo): number | undefined {
  return hookPoints.find(({ name }) => name === point)?.priority;
}

function compareNames(left: string, right: string): number {
  if (left === right) return 0;
  return left < right ? -1 : 1;
}

/** Returns the hooks to call, sorted by descending priority, then by name, then by container. */
export function subscribersAt(
  point: HookPoint,
  subscribers: readonly Subscriber[],
): readonly Subscription[] {
  return subscribers
    .flatMap(({ container, info }) => {
      const priority = priorityAt(point, info);
      const version = findVersion(info);
      // v1alpha2 has no Shutdown. Source: KubeVirt pkg/hooks manager.go.
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
