// SPDX-License-Identifier: Apache-2.0
// Evaluates taints and tolerations. Source: "Taints and Tolerations" of the Kubernetes documentation.
import type { Pod, Taint, Toleration } from "@patchbay/api/kubernetes";

/** Taint that `kubectl cordon` sets. Source: TaintNodeUnschedulable of Kubernetes. */
const UNSCHEDULABLE_TAINT: Taint = {
  key: "node.kubernetes.io/unschedulable",
  effect: "NoSchedule",
};

const TOLERATION_DEFAULTS = { effect: "", key: "", operator: "Equal", value: "" };

/** Returns whether the toleration matches. An unset effect or key matches all. Source: Toleration.ToleratesTaint. */
function toleratesTaint(toleration: Toleration, taint: Taint): boolean {
  const { effect, key, operator, value } = { ...TOLERATION_DEFAULTS, ...toleration };
  if (effect !== "" && effect !== taint.effect) return false;
  if (key !== "" && key !== taint.key) return false;
  return operator === "Exists" || (operator === "Equal" && value === (taint.value ?? ""));
}

function listTolerations({ spec }: Pod, taint: Taint): readonly Toleration[] {
  return (spec.tolerations ?? []).filter((toleration) => toleratesTaint(toleration, taint));
}

/** Returns how long the taint is tolerated: 0 if not at all, undefined if unlimited. Source: taint-eviction-controller of Kubernetes. */
function findTolerationSeconds(pod: Pod, taint: Taint): number | undefined {
  const tolerations = listTolerations(pod, taint);
  const seconds = tolerations.map(({ tolerationSeconds }) => tolerationSeconds ?? Infinity);
  const minimum = tolerations.length === 0 ? 0 : Math.min(...seconds);
  return minimum === Infinity ? undefined : Math.max(0, minimum);
}

/** Returns the taint that will evict the pod first, and the time until then; undefined if no taint evicts the pod. */
export function findTaintEviction(
  pod: Pod,
  taints: readonly Taint[],
): { readonly afterSeconds: number; readonly taint: Taint } | undefined {
  const evictions = taints.flatMap((taint) => {
    const afterSeconds =
      taint.effect === "NoExecute" ? findTolerationSeconds(pod, taint) : undefined;
    return afterSeconds === undefined ? [] : [{ afterSeconds, taint }];
  });
  return evictions.toSorted((left, right) => left.afterSeconds - right.afterSeconds)[0];
}

export function toleratesCordon(pod: Pod): boolean {
  return listTolerations(pod, UNSCHEDULABLE_TAINT).length > 0;
}

export function findUntoleratedTaint(pod: Pod, taints: readonly Taint[]): Taint | undefined {
  const enforcedTaints = taints.filter(({ effect }) => effect !== "PreferNoSchedule");
  return enforcedTaints.find((taint) => listTolerations(pod, taint).length === 0);
}

export function listUntoleratedSoftTaints(pod: Pod, taints: readonly Taint[]): readonly Taint[] {
  const softTaints = taints.filter(({ effect }) => effect === "PreferNoSchedule");
  return softTaints.filter((taint) => listTolerations(pod, taint).length === 0);
}
