// SPDX-License-Identifier: Apache-2.0
// Does a taint of the node keep a pod away? Pure. Source: Kubernetes "Taints and Tolerations".
import type { Pod, Taint, Toleration } from "@patchbay/api";

/** What `kubectl cordon` stands for. Source: Kubernetes TaintNodeUnschedulable. */
const UNSCHEDULABLE: Taint = { key: "node.kubernetes.io/unschedulable", effect: "NoSchedule" };

const ANY = { effect: "", key: "", operator: "Equal", value: "" };

/** Source: Kubernetes core/v1 Toleration.ToleratesTaint; what is left out fits every taint. */
function fits(toleration: Toleration, taint: Taint): boolean {
  const { effect, key, operator, value } = { ...ANY, ...toleration };
  if (effect !== "" && effect !== taint.effect) return false;
  if (key !== "" && key !== taint.key) return false;
  return operator === "Exists" || (operator === "Equal" && value === (taint.value ?? ""));
}

function tolerationsOf({ spec }: Pod, taint: Taint): readonly Toleration[] {
  return (spec.tolerations ?? []).filter((toleration) => fits(toleration, taint));
}

/** How long a pod stays where a taint ends it, seconds; undefined: for ever. Source: Kubernetes taint-eviction-controller. */
function tolerationSecondsOf(pod: Pod, taint: Taint): number | undefined {
  const fitting = tolerationsOf(pod, taint);
  const seconds = fitting.map(({ tolerationSeconds }) => tolerationSeconds ?? Infinity);
  const least = fitting.length === 0 ? 0 : Math.min(...seconds);
  return least === Infinity ? undefined : Math.max(0, least);
}

/** How long a pod that is on the node stays, seconds, and for which taint; undefined: for ever. */
export function evictionOf(
  pod: Pod,
  taints: readonly Taint[],
): { readonly afterSeconds: number; readonly taint: Taint } | undefined {
  const found = taints.flatMap((taint) => {
    const afterSeconds = taint.effect === "NoExecute" ? tolerationSecondsOf(pod, taint) : undefined;
    return afterSeconds === undefined ? [] : [{ afterSeconds, taint }];
  });
  return found.toSorted((one, other) => one.afterSeconds - other.afterSeconds)[0];
}

/** Whether a node that takes no new pods takes this one. */
export function toleratesCordon(pod: Pod): boolean {
  return tolerationsOf(pod, UNSCHEDULABLE).length > 0;
}

/** The first taint that keeps the pod away. */
export function untolerated(pod: Pod, taints: readonly Taint[]): Taint | undefined {
  const hard = taints.filter(({ effect }) => effect !== "PreferNoSchedule");
  return hard.find((taint) => tolerationsOf(pod, taint).length === 0);
}

/** The taints for which the pod had better be elsewhere; they keep it away from no node that is the only one. */
export function unwelcome(pod: Pod, taints: readonly Taint[]): readonly Taint[] {
  const soft = taints.filter(({ effect }) => effect === "PreferNoSchedule");
  return soft.filter((taint) => tolerationsOf(pod, taint).length === 0);
}
