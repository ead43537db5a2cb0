// SPDX-License-Identifier: Apache-2.0
// Which hooks of a VM are asked what, in which version and which order, by what they say of themselves. Source: KubeVirt
// pkg/hooks info, manager.go.
import type { HookInfo, HookPoint, HookVersion } from "../../../ports/node/hook-sidecars.ts";

/** The newest first. */
const VERSIONS: readonly HookVersion[] = ["v1alpha3", "v1alpha2"];

/** Points at which a hook may ask to be asked. Source: KubeVirt pkg/hooks/info. */
const POINTS: readonly HookPoint[] = ["OnDefineDomain", "PreCloudInitIso", "Shutdown"];

/** Characters of a name that somebody else has chosen, for people. */
const NAME_MAX = 63;

/** A sidecar that has told what it is. */
export interface Subscriber {
  /** Its container. */
  readonly container: string;
  readonly info: HookInfo;
}

/** A hook as it is asked. */
export interface Subscription {
  readonly container: string;
  /** For people: its own name and its container. */
  readonly hook: string;
  readonly version: HookVersion;
}

/** What a hook is called: what it says, as far as that is a name, and where it is. */
export function hookNameOf(container: string, info?: HookInfo): string {
  const said = (info?.name ?? "").replaceAll(/[^\w.-]/g, "").slice(0, NAME_MAX);
  return said === "" ? container : `${said} (${container})`;
}

/** In which version it is spoken to; undefined: it knows none that is known here. */
function versionOf({ versions }: HookInfo): HookVersion | undefined {
  return VERSIONS.find((version) => versions.includes(version));
}

/** What is wrong with a sidecar that is asked nothing; no full sentence. */
export function subscriptionProblem({ versions, hookPoints }: HookInfo): string | undefined {
  if (versionOf({ name: "", versions, hookPoints }) === undefined) {
    const said = versions.length === 0 ? "none" : versions.join(", ").slice(0, NAME_MAX);
    return `it speaks no version of the protocol that is known (${said}); use ${VERSIONS.join(" or ")}`;
  }
  const isAsked = hookPoints.some(({ name }) => POINTS.some((point) => point === name));
  return isAsked ? undefined : `it names no hook point; name ${POINTS.join(", ")}`;
}

function priorityAt(point: HookPoint, { hookPoints }: HookInfo): number | undefined {
  return hookPoints.find(({ name }) => name === point)?.priority;
}

function compareNames(left: string, right: string): number {
  if (left === right) return 0;
  return left < right ? -1 : 1;
}

/** Those that are asked at the point: the greater priority first, then by name, then by container. */
export function subscribersAt(
  point: HookPoint,
  subscribers: readonly Subscriber[],
): readonly Subscription[] {
  return subscribers
    .flatMap(({ container, info }) => {
      const priority = priorityAt(point, info);
      const version = versionOf(info);
      // Source: KubeVirt pkg/hooks manager.go, where v1alpha2 has no Shutdown.
      const isKnown = point !== "Shutdown" || version === "v1alpha3";
      if (priority === undefined || version === undefined || !isKnown) return [];
      return [{ container, hook: hookNameOf(container, info), version, priority, name: info.name }];
    })
    .toSorted(
      (left, right) =>
        right.priority - left.priority ||
        compareNames(left.name, right.name) ||
        compareNames(left.container, right.container),
    )
    .map(({ container, hook, version }) => ({ container, hook, version }));
}
