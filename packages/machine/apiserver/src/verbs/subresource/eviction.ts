// SPDX-License-Identifier: Apache-2.0
// POST pods/eviction: deletes a pod, unless its disruption budget is in the way. Source: Kubernetes
// pkg/registry/core/pod/storage/eviction.go.
import { ADMIT_ALL } from "../../admission/admission.ts";
import { parseObject } from "../../http/body.ts";
import { bucketOf } from "../../kinds/kind.ts";
import { POD_DISRUPTION_BUDGET } from "../../kinds/workload/disruption-budget.ts";
import { disruptionsOf, isHealthy, isOver, ownPodsOf } from "../../kinds/workload/disruptions.ts";
import { POD } from "../../kinds/workload/pod.ts";
import { StatusError } from "../../meta/status.ts";
import { fieldsOf, printJson, textAt } from "../../objects/json.ts";
import { printAddress, type KubeObject } from "../../objects/object.ts";
import type { StoredObject } from "../../storage/store.ts";
import { addressOf, type Call, type Reply } from "../call.ts";
import { deleteOne } from "../delete.ts";
import type { VerbDeps } from "../deps.ts";
import { deleteOptionsOf } from "../options/delete-options.ts";
import { CREATED, admitBody } from "./admit-body.ts";

const PODS = bucketOf(POD);
/** Stands for the evictions of a namespace, in place of objects. */
const EVICTIONS = "evictions";
const EVICTION = { group: "policy", version: "v1", kind: "Eviction" };

/** The budgets of a pod; none for one that has ended, is about to, or has not begun. */
function budgetsOf(
  { store }: VerbDeps,
  pod: KubeObject,
  namespace: string,
): readonly StoredObject[] {
  const isLeaving = pod.metadata.deletionTimestamp !== undefined;
  if (isOver(pod) || isLeaving || textAt(pod, "status", "phase") === "Pending") return [];
  const budgets = store.list({ bucket: bucketOf(POD_DISRUPTION_BUDGET), namespace });
  return budgets.filter((budget) => ownPodsOf(budget.view())(pod));
}

function severalBudgets(): StatusError {
  const message =
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
  return new StatusError({ code: 500, reason: "InternalError", message });
}

/** Why a pod may not be evicted now; a pod that is not ready costs nothing where enough others are. */
function refusalOf(deps: VerbDeps, pod: KubeObject, namespace: string): StatusError | undefined {
  const [budget, ...others] = budgetsOf(deps, pod, namespace).map((found) => found.view());
  if (budget === undefined) return undefined;
  if (others.length > 0) return severalBudgets();
  const pods = deps.store.list({ bucket: PODS, namespace }).map((found) => found.view());
  const { currentHealthy, desiredHealthy, disruptionsAllowed } = disruptionsOf(budget, pods);
  const always = textAt(budget, "spec", "unhealthyPodEvictionPolicy") === "AlwaysAllow";
  const isEnough = desiredHealthy > 0 && currentHealthy >= desiredHealthy;
  const costsNothing = !isHealthy(pod) && (always || isEnough);
  if (disruptionsAllowed > 0 || costsNothing) return undefined;
  const message = "Cannot evict pod as it would violate the pod's disruption budget.";
  const why = `The disruption budget ${budget.metadata.name} needs ${String(desiredHealthy)} healthy pods and has ${String(currentHealthy)} currently`;
  const details = { causes: [{ reason: "DisruptionBudget" as const, message: why }] };
  return new StatusError({ code: 429, reason: "TooManyRequests", message, details });
}

/** Deletes the pod as the `deleteOptions` of the body say. */
export async function evictPod(call: Call, deps: VerbDeps): Promise<Reply> {
  const eviction = await admitBody(call, deps, { kind: EVICTION, body: parseObject(call.body) });
  const options = fieldsOf(eviction["deleteOptions"]);
  const body = { contentType: "application/json", text: printJson(options) };
  // Of two that are asked for at once in a namespace the second sees what the first has left.
  const key = printAddress({ bucket: EVICTIONS, namespace: call.namespace, name: "" });
  await deps.mutex.runExclusive(key, async () => {
    const pod = deps.store.find(addressOf(call))?.view();
    const refusal = pod && refusalOf(deps, pod, call.namespace);
    if (refusal !== undefined) throw refusal;
    await deleteOne(call, { ...deps, admission: ADMIT_ALL }, deleteOptionsOf({ ...call, body }));
  });
  return CREATED;
}
