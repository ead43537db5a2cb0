// SPDX-License-Identifier: Apache-2.0
// What kube-apiserver fills in and the embedded server leaves out: nulls, empty members, tolerations, field managers.
import { setDefault } from "../kinds/workload/pod-defaults.ts";
import { type Fields, fieldsOf, isFields, listOf, valueAt } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import { managedFieldsOf } from "./managed-fields.ts";

/** Source: Kubernetes DefaultTolerationSeconds admission, which is on by default. */
const TOLERATED = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] as const;
const TOLERATION_SECONDS = 300;

function fillInTolerations(spec: Fields): void {
  const tolerations = [...listOf(spec["tolerations"])];
  const known = new Set(tolerations.map((toleration) => valueAt(toleration, "key")));
  for (const key of TOLERATED) {
    if (!known.has(key)) {
      const tolerationSeconds = TOLERATION_SECONDS;
      tolerations.push({ key, operator: "Exists", effect: "NoExecute", tolerationSeconds });
    }
  }
  spec["tolerations"] = tolerations;
}

function fillInStatus(status: Fields): void {
  for (const condition of listOf(status["conditions"]).filter(isFields)) {
    condition["lastProbeTime"] ??= null;
    condition["lastTransitionTime"] ??= null;
  }
  for (const container of listOf(status["containerStatuses"]).filter(isFields)) {
    setDefault(container, "lastState", {});
    setDefault(container, "state", {});
    setDefault(container, "imageID", "");
  }
}

function fillInPod(pod: KubeObject): void {
  fillInTolerations(fieldsOf(pod["spec"]));
  fillInStatus(fieldsOf(pod["status"]));
}

/** Fills an object in; once more changes nothing. */
export function fillIn(object: KubeObject): KubeObject {
  if (object.apiVersion === "v1" && object.kind === "Pod") {
    fillInPod(object);
  }
  object.metadata.managedFields = managedFieldsOf(object);
  return object;
}
