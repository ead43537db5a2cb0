// SPDX-License-Identifier: Apache-2.0
// Sets the priority of new pods. Source: Kubernetes Priority admission.
import { forbiddenBecause } from "../auth/forbidden.ts";
import { asFields, textAt, valueAt } from "../objects/json.ts";
import type { Store } from "../storage/store.ts";
import type { Mutation } from "./admission.ts";

const BUCKET = "scheduling.k8s.io/priorityclasses";

/** Priorities of the PriorityClasses that exist in every cluster. Source: Kubernetes pkg/apis/scheduling. */
const SYSTEM_CLASSES: ReadonlyMap<string, number> = new Map([
  ["system-cluster-critical", 2_000_000_000],
  ["system-node-critical", 2_000_001_000],
]);

/** Sets the priority of a pod that names a class. Throws a StatusError 403 if the class does not exist. */
export function setPriority(request: Mutation, store: Pick<Store, "find">): void {
  const { kind, subresource, operation, object } = request;
  const isNewPod = kind.group === "" && kind.resource === "pods" && subresource === "";
  const spec = asFields(object["spec"]);
  const name = textAt(spec, "priorityClassName");
  if (!isNewPod || operation !== "CREATE" || name === "") return;
  const priorityClass = store.find({ bucket: BUCKET, namespace: "", name })?.view();
  const value = SYSTEM_CLASSES.get(name) ?? valueAt(priorityClass, "value");
  if (typeof value !== "number") {
    const pod = { group: "", resource: "pods", name: object.metadata.name };
    throw forbiddenBecause(pod, `no PriorityClass with name ${name} was found`);
  }
  spec["priority"] = value;
  spec["preemptionPolicy"] = valueAt(priorityClass, "preemptionPolicy") ?? "PreemptLowerPriority";
}
