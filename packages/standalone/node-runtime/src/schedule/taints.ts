// SPDX-License-Identifier: Apache-2.0
// Taints and tolerations. Pure. Source: Kubernetes "Taints and Tolerations".
import type { Pod, Taint, Toleration } from "@patchbay/api";

/** The taint of `kubectl cordon`. Source: Kubernetes TaintNodeUnschedulable. */
const UNSCHEDULABLE: Taint = { key: "node.kubernetes.io/unschedulable", effect: "NoSchedule" };

const ANY = { effect: "", key: "", operator: "Equal", value: "" };

/** Unset fields match every taint. Source: Kubernetes core/v1 Toleration.ToleratesTaint. */
function toleratesTaint(toleration: Toleration, taint: Taint): boolean {
  const { effect, key, operator, value } = { ...ANY, ...toleration };
  if (effect !== "" && effect !== taint.effect) return false;
  if (key !== "" && key !== taint.key) return false;
  return operator === "Exists" || (operator === "Equal" && value === (taint.value ?? ""));
}

function listTolerations({ spec }: Pod, taint: Taint): readonly Toleration[] {
  return (spec.tolerations ?? []).filter((toleration) => toleratesTaint(toleration, taint));
}

/** Seconds; undefined without limit. Source: Kubernetes taint-eviction-controller. */
function findTolerationSeconds(pod: Pod, taint: Taint): number | undefined {
  const fitting = listTolerations(pod, taint);
  const seconds = fitting.map(({ tolerationSeconds }) => tolerationSeconds ?? Infinity);
  const least = fitting.length === 0 ? 0 : Math.min(...seconds);
  return least === Infinity ? undefined : Math.max(0, least);
}

/** The taint that evicts the pod first. */
export function findTaintEviction(
  pod: Pod,
  taints: readonly Taint[],
): { readonly afterSeconds: number; readonly taint: Taint } | undefined {
  const found = taints.flatMap((taint) => {
    const afterSeconds =
      taint.effect === "NoExecute" ? findTolerationSeconds(pod, taint) : undefined;
    return afterSeconds === undefined ? [] : [{ afterSeconds, taint }];
  });
  return found.toSorted((left, right) => left.afterSeconds - right.afterSeconds)[0];
}

export function toleratesCordon(pod: Pod): boolean {
  return listTolerations(pod, UNSCHEDULABLE).length > 0;
}

export function findUntolerated(pod: Pod, taints: readonly Taint[]): Taint | undefined {
  const enforced = taints.filter(({ effect }) => effect !== "PreferNoSchedule");
  return enforced.find((taint) => listTolerations(pod, taint).length === 0);
}

export function listUntoleratedSoft(pod: Pod, taints: readonly Taint[]): readonly Taint[] {
  const preferred = taints.filter(({ effect }) => effect === "PreferNoSchedule");
  return preferred.filter((taint) => listTolerations(pod, taint).length === 0);
}
