// SPDX-License-Identifier: Apache-2.0
// Kind Pod: immutable spec, graceful deletion. Source: Kubernetes core/v1 Pod.
import { DURATION_MAX_SECONDS } from "@patchbay/api/limits";
import type { Cause } from "../../meta/status.ts";
import { forbiddenValue } from "../../meta/causes.ts";
import {
  type Fields,
  asText,
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
import {
  CONTAINER_LISTS,
  defaultPodOnlyFields,
  defaultPodSpec,
  objectItems,
} from "./pod-defaults.ts";
import { type Quantity, parseQuantity } from "../../shapes/scalar.ts";

export type Amounts = ReadonlyMap<string, Quantity>;

export function parseAmounts(value: unknown): Map<string, Quantity> {
  const amounts = new Map<string, Quantity>();
  for (const [name, text] of Object.entries(asFields(value))) {
    const quantity = parseQuantity(asText(text));
    if (quantity !== undefined) amounts.set(name, quantity);
  }
  return amounts;
}

export function addAmounts(total: Map<string, Quantity>, amounts: Amounts, factor = 1n): void {
  for (const [name, { nanos, family }] of amounts) {
    const current = total.get(name);
    const isFirst = current === undefined || current.nanos === 0n;
    const sum = (current?.nanos ?? 0n) + factor * nanos;
    total.set(name, { nanos: sum, family: isFirst ? family : current.family });
  }
}

function raiseAmounts(total: Map<string, Quantity>, minimums: Amounts): void {
  for (const [name, minimum] of minimums) {
    const current = total.get(name);
    if (current === undefined || current.nanos < minimum.nanos) total.set(name, minimum);
  }
}

function computeInitPeak(
  spec: Fields,
  list: "requests" | "limits",
  total: Map<string, Quantity>,
): Amounts {
  const restartable = new Map<string, Quantity>();
  const peak = new Map<string, Quantity>();
  for (const container of objectItems(spec, "initContainers")) {
    const amounts = parseAmounts(valueAt(container, "resources", list));
    const isRestartable = container["restartPolicy"] === "Always";
    const needed = isRestartable ? restartable : new Map(restartable);
    addAmounts(needed, amounts);
    if (isRestartable) addAmounts(total, amounts);
    raiseAmounts(peak, needed);
  }
  return peak;
}

export function computePodAmounts(spec: Fields, list: "requests" | "limits"): Amounts {
  const total = new Map<string, Quantity>();
  for (const container of objectItems(spec, "containers")) {
    addAmounts(total, parseAmounts(valueAt(container, "resources", list)));
  }
  raiseAmounts(total, computeInitPeak(spec, list, total));
  const overhead = [...parseAmounts(spec["overhead"])];
  addAmounts(
    total,
    new Map(list === "requests" ? overhead : overhead.filter(([name]) => total.has(name))),
  );
  return total;
}

export function computeQosClass(spec: Fields): string {
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
  const hasResources = [...limits, ...requests].some(
    ({ cpu, memory }) => (cpu ?? memory) !== undefined,
  );
  if (!hasResources) {
    return "BestEffort";
  }
  const hasAllLimits = limits.every(({ cpu, memory }) => cpu !== undefined && memory !== undefined);
  const requestsEqualLimits = requests.every(
    ({ cpu, memory }, index) =>
      (cpu === undefined || equalJson(cpu, limits[index]?.cpu)) &&
      (memory === undefined || equalJson(memory, limits[index]?.memory)),
  );
  return hasAllLimits && requestsEqualLimits ? "Guaranteed" : "Burstable";
}

function prepareCreate(pod: KubeObject): void {
  pod["status"] = { phase: "Pending", qosClass: computeQosClass(asFields(pod["spec"])) };
}

/** Returns a copy of `spec` with the mutable fields of `mutableSource`. A comparison of such copies considers only immutable fields. */
function immutablePart(spec: Fields, mutableSource: Fields): Fields {
  const copy = copyJson(spec);
  for (const list of CONTAINER_LISTS) {
    asList(copy[list]).forEach((container, index) => {
      if (isFields(container)) {
        container["image"] = valueAt(asList(mutableSource[list])[index], "image");
      }
    });
  }
  for (const key of ["activeDeadlineSeconds", "tolerations", "schedulingGates"]) {
    copy[key] = mutableSource[key];
  }
  return copy;
}

function validateUpdate(pod: KubeObject, current: KubeObject): Cause[] {
  // A stored pod may lack newer defaults, which must not count as a change.
  const currentSpec = copyJson(asFields(current["spec"]));
  defaultPodSpec(currentSpec);
  defaultPodOnlyFields(currentSpec);
  const immutableFields = immutablePart(asFields(pod["spec"]), currentSpec);
  const currentFields = immutablePart(currentSpec, currentSpec);
  return equalJson(copyJson(immutableFields), copyJson(currentFields))
    ? []
    : [
        forbiddenValue(
          "spec",
          "pod updates may not change fields other than `spec.containers[*].image`, `spec.initContainers[*].image`, `spec.activeDeadlineSeconds`, `spec.tolerations` (only additions to existing tolerations) or `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
        ),
      ];
}

/** Returns the grace period. Returns undefined if the pod has no node or has finished, or if the period is 0. */
function graceSeconds(pod: KubeObject, requested: number | undefined): number | undefined {
  const phase = textAt(pod, "status", "phase");
  if (textAt(pod, "spec", "nodeName") === "" || phase === "Succeeded" || phase === "Failed") {
    return undefined;
  }
  const specGrace = valueAt(pod, "spec", "terminationGracePeriodSeconds");
  const grace = requested ?? (typeof specGrace === "number" ? specGrace : 30);
  return grace <= 0 ? undefined : Math.min(grace, DURATION_MAX_SECONDS);
}

function statusCell(pod: KubeObject): string {
  if (pod.metadata.deletionTimestamp !== undefined) {
    return "Terminating";
  }
  const phase = textAt(pod, "status", "phase");
  const stateReason = asList(valueAt(pod, "status", "containerStatuses"))
    .map(
      (status) =>
        textAt(status, "state", "waiting", "reason") ||
        textAt(status, "state", "terminated", "reason"),
    )
    .find((reason) => reason !== "");
  return stateReason ?? (textAt(pod, "status", "reason") || phase || "Unknown");
}

function readyCell(pod: KubeObject): string {
  const statuses = asList(valueAt(pod, "status", "containerStatuses"));
  const readyCount = statuses.filter((status) => valueAt(status, "ready") === true).length;
  return `${String(readyCount)}/${String(asList(valueAt(pod, "spec", "containers")).length)}`;
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
    // portforward is listed because clients expect it, but requests for it get a StatusError 501.
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
