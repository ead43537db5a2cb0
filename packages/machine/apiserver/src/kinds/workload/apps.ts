// SPDX-License-Identifier: Apache-2.0
// The kinds of apps/v1, as objects: no controller of this server makes pods of them. Source: Kubernetes apps/v1.
import type { Cause } from "../../meta/status.ts";
import { forbiddenValue, invalidValue, requiredValue } from "../../meta/causes.ts";
import {
  type Fields,
  asText,
  equalJson,
  fieldsOf,
  textAt,
  valueAt,
  without,
} from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import { AGE } from "../../table/age.ts";
import { type Kind, type KindSketch, type Strategy, defineKind } from "../kind.ts";
import { itemsOf, setDefault } from "./pod-defaults.ts";
import { defaultClaim } from "../storage/claim.ts";
import {
  CONTAINER_COLUMNS,
  READY_COLUMN,
  SELECTOR_COLUMN,
  WORKLOAD_SCALE,
  countCauses,
  countColumn,
  defaultStrategy,
  defaultTemplate,
  selectorChange,
  specOf,
  templateCauses,
} from "./workload.ts";

function workload(
  sketch: Omit<KindSketch, "group" | "version" | "strategy">,
  strategy: Partial<Strategy>,
): Kind {
  return defineKind({
    group: "apps",
    version: "v1",
    categories: ["all"],
    ...sketch,
    strategy: { hasStatus: true, hasGeneration: true, ...strategy },
  });
}

function isNothing(value: unknown): boolean {
  return value === 0 || value === "0%";
}

function deploymentCauses(deployment: KubeObject): Cause[] {
  const spec = fieldsOf(deployment["spec"]);
  const rolling = fieldsOf(valueAt(spec, "strategy", "rollingUpdate"));
  const stuck = isNothing(rolling["maxUnavailable"]) && isNothing(rolling["maxSurge"]);
  const deadline = Number(spec["progressDeadlineSeconds"] ?? 0);
  const ready = Number(spec["minReadySeconds"] ?? 0);
  return [
    ...countCauses(spec, "replicas", "minReadySeconds", "revisionHistoryLimit"),
    ...templateCauses(spec, "deployment"),
    ...(stuck
      ? [
          invalidValue(
            "spec.strategy.rollingUpdate.maxUnavailable",
            rolling["maxUnavailable"],
            "may not be 0 when `maxSurge` is 0",
          ),
        ]
      : []),
    ...(deadline <= ready
      ? [
          invalidValue(
            "spec.progressDeadlineSeconds",
            deadline,
            "must be greater than minReadySeconds",
          ),
        ]
      : []),
    ...(textAt(spec, "strategy", "type") === "Recreate" && Object.keys(rolling).length > 0
      ? [
          forbiddenValue(
            "spec.strategy.rollingUpdate",
            "may not be specified when strategy `type` is 'Recreate'",
          ),
        ]
      : []),
  ];
}

const DEPLOYMENT = workload(
  { resource: "deployments", kind: "Deployment", shortNames: ["deploy"], scale: WORKLOAD_SCALE },
  {
    applyDefaults: (deployment) => {
      const spec = specOf(deployment);
      setDefault(spec, "replicas", 1);
      setDefault(spec, "revisionHistoryLimit", 10);
      setDefault(spec, "progressDeadlineSeconds", 600);
      defaultStrategy(spec, "strategy", { maxUnavailable: "25%", maxSurge: "25%" });
      defaultTemplate(spec);
    },
    prepareCreate: (deployment) => {
      deployment["status"] = {};
    },
    validate: deploymentCauses,
    validateUpdate: selectorChange,
    columns: [
      READY_COLUMN,
      countColumn("Up-to-date", "status", "updatedReplicas"),
      countColumn("Available", "status", "availableReplicas"),
      AGE,
      ...CONTAINER_COLUMNS,
      SELECTOR_COLUMN,
    ],
  },
);

const REPLICA_SET = workload(
  { resource: "replicasets", kind: "ReplicaSet", shortNames: ["rs"], scale: WORKLOAD_SCALE },
  {
    applyDefaults: (set) => {
      const spec = specOf(set);
      setDefault(spec, "replicas", 1);
      defaultTemplate(spec);
    },
    prepareCreate: (set) => {
      set["status"] = { replicas: 0 };
    },
    validate: (set) => {
      const spec = fieldsOf(set["spec"]);
      return [
        ...countCauses(spec, "replicas", "minReadySeconds"),
        ...templateCauses(spec, "replicaset"),
      ];
    },
    validateUpdate: selectorChange,
    selectableFields: {
      "status.replicas": (set) => asText(valueAt(set, "status", "replicas") ?? 0),
    },
    columns: [
      countColumn("Desired", "spec", "replicas"),
      countColumn("Current", "status", "replicas"),
      countColumn("Ready", "status", "readyReplicas"),
      AGE,
      ...CONTAINER_COLUMNS,
      SELECTOR_COLUMN,
    ],
  },
);

function nodeSelectorCell(set: KubeObject): string {
  const selector = fieldsOf(valueAt(set, "spec", "template", "spec", "nodeSelector"));
  const labels = Object.entries(selector).map(([key, value]) => `${key}=${String(value)}`);
  return labels.length === 0 ? "<none>" : labels.sort().join(",");
}

const DAEMON_SET = workload(
  { resource: "daemonsets", kind: "DaemonSet", shortNames: ["ds"] },
  {
    applyDefaults: (set) => {
      const spec = specOf(set);
      setDefault(spec, "revisionHistoryLimit", 10);
      defaultStrategy(spec, "updateStrategy", { maxUnavailable: 1, maxSurge: 0 });
      defaultTemplate(spec);
    },
    prepareCreate: (set) => {
      set["status"] = {
        currentNumberScheduled: 0,
        numberMisscheduled: 0,
        desiredNumberScheduled: 0,
        numberReady: 0,
      };
    },
    validate: (set) => {
      const spec = fieldsOf(set["spec"]);
      return [
        ...templateCauses(spec, "daemonset"),
        ...countCauses(spec, "minReadySeconds", "revisionHistoryLimit"),
      ];
    },
    validateUpdate: selectorChange,
    columns: [
      countColumn("Desired", "status", "desiredNumberScheduled"),
      countColumn("Current", "status", "currentNumberScheduled"),
      countColumn("Ready", "status", "numberReady"),
      countColumn("Up-to-date", "status", "updatedNumberScheduled"),
      countColumn("Available", "status", "numberAvailable"),
      { name: "Node Selector", type: "string", cell: nodeSelectorCell },
      AGE,
      ...CONTAINER_COLUMNS,
      SELECTOR_COLUMN,
    ],
  },
);

/** Fields of a StatefulSet that may change. */
const CHANGEABLE = [
  "replicas",
  "ordinals",
  "template",
  "updateStrategy",
  "revisionHistoryLimit",
  "persistentVolumeClaimRetentionPolicy",
  "minReadySeconds",
] as const;

function statefulSetChange(set: KubeObject, current: KubeObject): Cause[] {
  const fixed = (object: KubeObject) => without(fieldsOf(object["spec"]), ...CHANGEABLE);
  return equalJson(fixed(set), fixed(current))
    ? []
    : [
        forbiddenValue(
          "spec",
          "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
        ),
      ];
}

function claimNames(spec: Fields): string[] {
  return itemsOf(spec, "volumeClaimTemplates").map((claim) => textAt(claim, "metadata", "name"));
}

const STATEFUL_SET = workload(
  { resource: "statefulsets", kind: "StatefulSet", shortNames: ["sts"], scale: WORKLOAD_SCALE },
  {
    applyDefaults: (set) => {
      const spec = specOf(set);
      setDefault(spec, "replicas", 1);
      setDefault(spec, "revisionHistoryLimit", 10);
      setDefault(spec, "podManagementPolicy", "OrderedReady");
      setDefault(spec, "serviceName", "");
      spec["persistentVolumeClaimRetentionPolicy"] = {
        whenDeleted: "Retain",
        whenScaled: "Retain",
        ...fieldsOf(spec["persistentVolumeClaimRetentionPolicy"]),
      };
      defaultStrategy(spec, "updateStrategy", { partition: 0 });
      defaultTemplate(spec);
      for (const claim of itemsOf(spec, "volumeClaimTemplates")) {
        defaultClaim(claim);
        claim["apiVersion"] ??= "v1";
        claim["kind"] ??= "PersistentVolumeClaim";
        claim["status"] = { phase: "Pending" };
      }
    },
    prepareCreate: (set) => {
      set["status"] = { replicas: 0, availableReplicas: 0 };
    },
    validate: (set) => {
      const spec = fieldsOf(set["spec"]);
      return [
        ...countCauses(spec, "replicas", "minReadySeconds", "revisionHistoryLimit"),
        ...templateCauses(spec, "statefulset", claimNames(spec)),
      ];
    },
    validateUpdate: statefulSetChange,
    columns: [READY_COLUMN, AGE, ...CONTAINER_COLUMNS],
  },
);

function controllerCell(revision: KubeObject): string {
  const owner = (revision.metadata.ownerReferences ?? []).find(
    ({ controller }) => controller === true,
  );
  if (owner === undefined) {
    return "<none>";
  }
  const group = owner.apiVersion.includes("/") ? `.${owner.apiVersion.split("/")[0] ?? ""}` : "";
  return `${owner.kind.toLowerCase()}${group}/${owner.name}`;
}

const CONTROLLER_REVISION = workload(
  { resource: "controllerrevisions", kind: "ControllerRevision", categories: [] },
  {
    hasStatus: false,
    hasGeneration: false,
    validate: (revision) => [
      ...(revision["data"] === undefined ? [requiredValue("data", "data is mandatory")] : []),
      ...(Number(revision["revision"] ?? 0) < 0
        ? [invalidValue("revision", revision["revision"], "must be greater than or equal to 0")]
        : []),
    ],
    validateUpdate: (revision, current) =>
      equalJson(revision["data"], current["data"])
        ? []
        : [invalidValue("data", revision["data"], "field is immutable")],
    columns: [
      { name: "Controller", type: "string", cell: controllerCell },
      { name: "Revision", type: "string", cell: (revision) => asText(revision["revision"] ?? 0) },
      AGE,
    ],
  },
);

/** Deployments, replica sets, daemon sets, stateful sets and their revisions. */
export const WORKLOAD_KINDS: readonly Kind[] = [
  CONTROLLER_REVISION,
  DAEMON_SET,
  DEPLOYMENT,
  REPLICA_SET,
  STATEFUL_SET,
];
