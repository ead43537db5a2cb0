// SPDX-License-Identifier: Apache-2.0
// Why can a pod that has no node not be given to this one? Pure; in a scheduler's words, since people search for them.
import type { KubeNode, Pod } from "@patchbay/api";
import { allocatableOf } from "./amounts.ts";
import { sayShortage, shortagesOf } from "./shortage.ts";
import { toleratesCordon, untolerated } from "./taints.ts";

/** Source: Kubernetes nodeunschedulable, tainttoleration. */
function taintProblem(pod: Pod, { spec }: KubeNode): string | undefined {
  if (spec?.unschedulable === true && !toleratesCordon(pod)) return "node(s) were unschedulable";
  const taint = untolerated(pod, spec?.taints ?? []);
  return taint && `node(s) had untolerated taint {${taint.key}: ${taint.value ?? ""}}`;
}

function selectorProblem(pod: Pod, node: KubeNode): string | undefined {
  const labels = node.metadata.labels ?? {};
  const missing = Object.entries(pod.spec.nodeSelector ?? {})
    .filter(([label, value]) => labels[label] !== value)
    .map(([label, value]) => `${label}=${value}`)
    .sort();
  if (missing.length === 0) return undefined;
  return `node ${node.metadata.name} does not have ${missing.join(", ")}`;
}

/** Source: Kubernetes pkg/scheduler/framework, FitError. */
function sayNone(reasons: readonly string[]): string | undefined {
  if (reasons.length === 0) return undefined;
  return `0/1 nodes are available: ${reasons.map((reason) => `1 ${reason}`).join(", ")}.`;
}

/** What stands in the way; undefined: nothing. `others` are the pods that the node has. */
export function whyNotPlaced(pod: Pod, node: KubeNode, others: readonly Pod[]): string | undefined {
  const allocatable = allocatableOf(node);
  if (allocatable === undefined) return sayNone(["node(s) have not reported their resources"]);
  const taint = taintProblem(pod, node);
  if (taint !== undefined) return sayNone([taint]);
  const shortages = shortagesOf(pod, others, allocatable);
  return selectorProblem(pod, node) ?? sayNone(shortages.map(sayShortage));
}
