// SPDX-License-Identifier: Apache-2.0
// Pods: immutable spec, graceful deletion. Source: Kubernetes core/v1 Pod.
import type { Cause } from "../../meta/status.ts";
import { forbiddenValue } from "../../meta/causes.ts";
import {
  type Fields,
  copyJson,
  equalJson,
  asFields,
  isFields,
  asList,
  textAt,
  valueAt,
} from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import { AGE } from "../../table/age.ts";
import { type Column, type Kind, defineKind } from "../kind.ts";
import { podSpecCauses } from "./pod-validation.ts";
import { CONTAINER_LISTS, defaultPodOnlyFields, defaultPodSpec } from "./pod-defaults.ts";

function computeQosClass(spec: Fields): string {
  const resources = CONTAINER_LISTS.flatMap((list) =>
    asList(spec[list]).map((container) => asFields(valueAt(container, "resources"))),
  );
  const cpuAndMemory = (list: string) =>
    resources.map((resource) => {
      const { cpu, memory } = asFields(resource[list]);
      return { cpu, memory };
    });
  const limits = cpuAndMemory("limits");
  const requests = cpuAndMemory("requests");
  const named = [...limits, ...requests].some(({ cpu, memory }) => (cpu ?? memory) !== undefined);
  if (!named) {
    return "BestEffort";
  }
  const full = limits.every(({ cpu, memory }) => cpu !== undefined && memory !== undefined);
  const equal = requests.every(
    ({ cpu, memory }, index) =>
      (cpu === undefined || equalJson(cpu, limits[index]?.cpu)) &&
      (memory === undefined || equalJson(memory, limits[index]?.memory)),
  );
  return full && equal ? "Guaranteed" : "Burstable";
}

function prepareCreate(pod: KubeObject): void {
  pod["status"] = { phase: "Pending", qosClass: computeQosClass(asFields(pod["spec"])) };
}

/** A copy of spec in which the mutable fields have the values of `like`. */
function immutablePart(spec: Fields, like: Fields): Fields {
  const fixed = copyJson(spec);
  for (const list of CONTAINER_LISTS) {
    asList(fixed[list]).forEach((container, index) => {
      if (isFields(container)) {
        container["image"] = valueAt(asList(like[list])[index], "image");
      }
    });
  }
  for (const key of ["activeDeadlineSeconds", "tolerations", "schedulingGates"]) {
    fixed[key] = like[key];
  }
  return fixed;
}

function validateUpdate(pod: KubeObject, current: KubeObject): Cause[] {
  // The stored pod may be older than a default, so it is defaulted before the comparison.
  const currentSpec = copyJson(asFields(current["spec"]));
  defaultPodSpec(currentSpec);
  defaultPodOnlyFields(currentSpec);
  const fixed = immutablePart(asFields(pod["spec"]), currentSpec);
  const before = immutablePart(currentSpec, currentSpec);
  return equalJson(copyJson(fixed), copyJson(before))
    ? []
    : [
        forbiddenValue(
          "spec",
          "pod updates may not change fields other than `spec.containers[*].image`, `spec.initContainers[*].image`, `spec.activeDeadlineSeconds`, `spec.tolerations` (only additions to existing tolerations) or `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
        ),
      ];
}

/** Deletes a pod without a node, or one that has ended, at once. Others are deleted by their node. */
function graceSeconds(pod: KubeObject, requested: number | undefined): number | undefined {
  const phase = textAt(pod, "status", "phase");
  if (textAt(pod, "spec", "nodeName") === "" || phase === "Succeeded" || phase === "Failed") {
    return undefined;
  }
  const specified = valueAt(pod, "spec", "terminationGracePeriodSeconds");
  const grace = requested ?? (typeof specified === "number" ? specified : 30);
  return grace <= 0 ? undefined : grace;
}

function statusCell(pod: KubeObject): string {
  if (pod.metadata.deletionTimestamp !== undefined) {
    return "Terminating";
  }
  const phase = textAt(pod, "status", "phase");
  const waiting = asList(valueAt(pod, "status", "containerStatuses"))
    .map(
      (status) =>
        textAt(status, "state", "waiting", "reason") ||
        textAt(status, "state", "terminated", "reason"),
    )
    .find((reason) => reason !== "");
  return waiting ?? (textAt(pod, "status", "reason") || phase || "Unknown");
}

function readyCell(pod: KubeObject): string {
  const statuses = asList(valueAt(pod, "status", "containerStatuses"));
  const ready = statuses.filter((status) => valueAt(status, "ready") === true).length;
  return `${String(ready)}/${String(asList(valueAt(pod, "spec", "containers")).length)}`;
}

function restartsCell(pod: KubeObject): string {
  const counts = asList(valueAt(pod, "status", "containerStatuses")).map((status) =>
    Number(valueAt(status, "restartCount") ?? 0),
  );
  return String(counts.reduce((sum, count) => sum + count, 0));
}

const COLUMNS: readonly Column[] = [
  { name: "Ready", type: "string", cell: readyCell },
  { name: "Status", type: "string", cell: statusCell },
  { name: "Restarts", type: "string", cell: restartsCell },
  AGE,
  {
    name: "IP",
    type: "string",
    priority: 1,
    cell: (pod) => textAt(pod, "status", "podIP") || "<none>",
  },
  {
    name: "Node",
    type: "string",
    priority: 1,
    cell: (pod) => textAt(pod, "spec", "nodeName") || "<none>",
  },
  {
    name: "Nominated Node",
    type: "string",
    priority: 1,
    cell: (pod) => textAt(pod, "status", "nominatedNodeName") || "<none>",
  },
  { name: "Readiness Gates", type: "string", priority: 1, cell: () => "<none>" },
];

export const POD: Kind = defineKind({
  group: "",
  version: "v1",
  resource: "pods",
  kind: "Pod",
  shortNames: ["po"],
  categories: ["all"],
  subresources: [
    { name: "binding", verbs: ["create"], kind: "Binding", group: "", version: "v1" },
    { name: "eviction", verbs: ["create"], kind: "Eviction", group: "policy", version: "v1" },
    // Listed in discovery because clients expect them; requests get an error that explains why they are not supported.
    { name: "attach", verbs: ["create", "get"], kind: "PodAttachOptions" },
    { name: "exec", verbs: ["create", "get"], kind: "PodExecOptions" },
    { name: "log", verbs: ["get"] },
    { name: "portforward", verbs: ["create", "get"], kind: "PodPortForwardOptions" },
  ],
  strategy: {
    hasStatus: true,
    returnsDeleted: true,
    applyDefaults: (pod) => {
      const spec = asFields(pod["spec"]);
      defaultPodSpec(spec);
      defaultPodOnlyFields(spec);
      pod["spec"] = spec;
    },
    prepareCreate,
    validate: (pod) => podSpecCauses(asFields(pod["spec"]), "spec"),
    validateUpdate,
    graceSeconds,
    selectableFields: {
      "spec.nodeName": (pod) => textAt(pod, "spec", "nodeName"),
      "spec.restartPolicy": (pod) => textAt(pod, "spec", "restartPolicy"),
      "spec.schedulerName": (pod) => textAt(pod, "spec", "schedulerName"),
      "spec.serviceAccountName": (pod) => textAt(pod, "spec", "serviceAccountName"),
      "status.phase": (pod) => textAt(pod, "status", "phase"),
      "status.podIP": (pod) => textAt(pod, "status", "podIP"),
      "status.nominatedNodeName": (pod) => textAt(pod, "status", "nominatedNodeName"),
    },
    columns: COLUMNS,
  },
});
