// SPDX-License-Identifier: Apache-2.0
// Handles the subresources binding, eviction and portforward of pods. Source: Kubernetes pkg/registry/core/pod/storage/eviction.go.
import { ADMIT_ALL } from "../../admission/admission.ts";
import { parseObject } from "../../http/body.ts";
import { StatusError, badRequest, conflict, notFound } from "../../meta/status.ts";
import { type Fields, asFields, asList, printJson, textAt } from "../../objects/json.ts";
import { type KubeObject, printAddress } from "../../objects/object.ts";
import { rfc3339 } from "../../objects/time.ts";
import { type Call, type Reply, toResourceRef, toAddress } from "../call.ts";
import { changeObject } from "../change.ts";
import type { VerbDeps } from "../deps.ts";
import { bucketOf } from "../../kinds/kind.ts";
import {
  POD_DISRUPTION_BUDGET,
  countDisruptions,
  hasEnded,
  isHealthy,
  makePodMatcher,
} from "../../kinds/workload/disruption-budget.ts";
import { POD } from "../../kinds/workload/pod.ts";
import type { StoredObject } from "../../storage/store.ts";
import { deleteOne } from "../delete.ts";
import { parseDeleteOptions } from "../options/delete-options.ts";
import { CREATED_REPLY, admitBody } from "./admit-body.ts";

const BINDING = { group: "", version: "v1", kind: "Binding" };

function setCondition(object: KubeObject, condition: Fields): void {
  const status = asFields(object["status"]);
  const otherConditions = asList(status["conditions"]).filter(
    (existingCondition) => textAt(existingCondition, "type") !== condition["type"],
  );
  object["status"] = { ...status, conditions: [...otherConditions, condition] };
}

export async function bindPod(call: Call, deps: VerbDeps): Promise<Reply> {
  const binding = await admitBody(call, deps, { kind: BINDING, body: parseObject(call.body) });
  const node = textAt(binding, "target", "name");
  if (node === "") {
    throw badRequest("Binding target.name: Required value");
  }
  await changeObject(
    call,
    { ...deps, admission: ADMIT_ALL },
    {
      part: "all",
      edit: (pod) => {
        const currentNode = textAt(pod, "spec", "nodeName");
        if (currentNode !== "") {
          const explanation = `pod ${pod.metadata.name} is already assigned to node "${currentNode}"`;
          throw conflict(
            { ...toResourceRef(call.kind), resource: "pods/binding" },
            call.name,
            explanation,
          );
        }
        pod["spec"] = { ...asFields(pod["spec"]), nodeName: node };
        setCondition(pod, {
          type: "PodScheduled",
          status: "True",
          lastProbeTime: null,
          lastTransitionTime: rfc3339(deps.clock.now()),
        });
        return pod;
      },
    },
  );
  return CREATED_REPLY;
}

const PODS = bucketOf(POD);
/** Pseudo-bucket in the mutex key that serializes the evictions of a namespace. */
const EVICTIONS_KEY = "evictions";
const EVICTION = { group: "policy", version: "v1", kind: "Eviction" };

/** Returns the budgets that limit the eviction. Returns none for a pending, terminating or finished pod. */
function findBudgets(
  { store }: VerbDeps,
  pod: KubeObject,
  namespace: string,
): readonly StoredObject[] {
  const isTerminating = pod.metadata.deletionTimestamp !== undefined;
  if (hasEnded(pod) || isTerminating || textAt(pod, "status", "phase") === "Pending") return [];
  const budgets = store.list({ bucket: bucketOf(POD_DISRUPTION_BUDGET), namespace });
  return budgets.filter((budget) => makePodMatcher(budget.view())(pod));
}

function multipleBudgetsError(): StatusError {
  const message =
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
  return new StatusError({ code: 500, reason: "InternalError", message });
}

/**
 * Returns an error if the pod's budget forbids the eviction, or if the pod has several budgets. The budget does not
 * protect an unhealthy pod if the budget's policy is AlwaysAllow or enough other pods are healthy.
 */
function checkBudget(deps: VerbDeps, pod: KubeObject, namespace: string): StatusError | undefined {
  const [budget, ...otherBudgets] = findBudgets(deps, pod, namespace).map((stored) =>
    stored.view(),
  );
  if (budget === undefined) return undefined;
  if (otherBudgets.length > 0) return multipleBudgetsError();
  const pods = deps.store.list({ bucket: PODS, namespace }).map((stored) => stored.view());
  const { currentHealthy, desiredHealthy, disruptionsAllowed } = countDisruptions(budget, pods);
  const alwaysAllowsUnhealthy =
    textAt(budget, "spec", "unhealthyPodEvictionPolicy") === "AlwaysAllow";
  const hasEnoughHealthy = desiredHealthy > 0 && currentHealthy >= desiredHealthy;
  const isUnhealthyEvictable = !isHealthy(pod) && (alwaysAllowsUnhealthy || hasEnoughHealthy);
  if (disruptionsAllowed > 0 || isUnhealthyEvictable) return undefined;
  const message = "Cannot evict pod as it would violate the pod's disruption budget.";
  const explanation = `The disruption budget ${budget.metadata.name} needs ${String(desiredHealthy)} healthy pods and has ${String(currentHealthy)} currently`;
  const details = { causes: [{ reason: "DisruptionBudget" as const, message: explanation }] };
  return new StatusError({ code: 429, reason: "TooManyRequests", message, details });
}

export async function evictPod(call: Call, deps: VerbDeps): Promise<Reply> {
  const eviction = await admitBody(call, deps, { kind: EVICTION, body: parseObject(call.body) });
  const options = asFields(eviction["deleteOptions"]);
  const body = { contentType: "application/json", text: printJson(options) };
  // Evictions of a namespace run sequentially, so that each eviction counts only the pods that remain after earlier evictions.
  const key = printAddress({ bucket: EVICTIONS_KEY, namespace: call.namespace, name: "" });
  await deps.mutex.runExclusive(key, async () => {
    const pod = deps.store.find(toAddress(call))?.view();
    const rejection = pod && checkBudget(deps, pod, call.namespace);
    if (rejection !== undefined) throw rejection;
    await deleteOne(call, { ...deps, admission: ADMIT_ALL }, parseDeleteOptions({ ...call, body }));
  });
  return CREATED_REPLY;
}

/** Runs admission for a port-forward request, then rejects the request. @throws StatusError 404 or 501 */
export async function refusePortForward(call: Call, deps: VerbDeps): Promise<never> {
  const kind = { group: "", version: "v1", kind: "PodPortForwardOptions" };
  await admitBody(call, deps, { kind, body: {}, operation: "CONNECT" });
  if (deps.store.find(toAddress(call)) === undefined) {
    throw notFound(toResourceRef(call.kind), call.name);
  }
  throw new StatusError({
    code: 501,
    reason: "NotImplemented",
    message: "pods/portforward is not supported",
    details: { name: call.name, kind: call.kind.resource },
  });
}
