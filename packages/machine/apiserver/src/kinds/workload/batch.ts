// SPDX-License-Identifier: Apache-2.0
// Jobs and cron jobs, as objects: nothing here runs them. Source: Kubernetes batch/v1.
import type { Cause } from "../../meta/status.ts";
import { invalidValue, requiredValue, unsupportedValue } from "../../meta/causes.ts";
import {
  type Fields,
  asText,
  equalJson,
  fieldsOf,
  listOf,
  textAt,
  valueAt,
} from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import { AGE, ageOf } from "../../table/age.ts";
import { type Kind, defineKind } from "../kind.ts";
import { podSpecCauses } from "./pod-causes.ts";
import { setDefault } from "./pod-defaults.ts";
import {
  CONTAINER_COLUMNS,
  SELECTOR_COLUMN,
  countCauses,
  defaultTemplate,
  specOf,
} from "./workload.ts";

const RESTART_POLICIES: readonly string[] = ["OnFailure", "Never"];

function defaultJobSpec(spec: Fields): void {
  if (spec["completions"] === undefined && spec["parallelism"] === undefined) {
    spec["completions"] = 1;
  }
  setDefault(spec, "parallelism", 1);
  setDefault(spec, "backoffLimit", 6);
  setDefault(spec, "completionMode", "NonIndexed");
  setDefault(spec, "suspend", false);
  defaultTemplate(spec);
}

/** A job selects its pods by its own uid, unless it says that it selects otherwise. */
function prepareJob(job: KubeObject): void {
  const spec = fieldsOf(job["spec"]);
  job["status"] = {};
  if (spec["manualSelector"] === true) {
    return;
  }
  const uid = job.metadata.uid ?? "";
  const { name } = job.metadata;
  const template = fieldsOf(spec["template"]);
  const metadata = fieldsOf(template["metadata"]);
  template["metadata"] = {
    ...metadata,
    labels: {
      ...fieldsOf(metadata["labels"]),
      "batch.kubernetes.io/controller-uid": uid,
      "batch.kubernetes.io/job-name": name,
      "controller-uid": uid,
      "job-name": name,
    },
  };
  spec["selector"] = { matchLabels: { "batch.kubernetes.io/controller-uid": uid } };
}

function jobSpecCauses(spec: Fields, path: string): Cause[] {
  const podSpec = fieldsOf(valueAt(spec, "template", "spec"));
  const policy = textAt(podSpec, "restartPolicy");
  return [
    ...podSpecCauses(podSpec, `${path}.template.spec`),
    ...(RESTART_POLICIES.includes(policy)
      ? []
      : [unsupportedValue(`${path}.template.spec.restartPolicy`, policy, RESTART_POLICIES)]),
  ];
}

function jobChange(job: KubeObject, current: KubeObject): Cause[] {
  return ["selector", "template", "completionMode"]
    .filter((key) => !equalJson(valueAt(job, "spec", key), valueAt(current, "spec", key)))
    .map((key) => invalidValue(`spec.${key}`, valueAt(job, "spec", key), "field is immutable"));
}

function completionsCell(job: KubeObject): string {
  const done = asText(valueAt(job, "status", "succeeded") ?? 0);
  return `${done}/${asText(valueAt(job, "spec", "completions") ?? 1)}`;
}

function durationCell(job: KubeObject, nowMs: number): string {
  const started = textAt(job, "status", "startTime");
  return started === "" ? "" : ageOf(started, nowMs);
}

const JOB: Kind = defineKind({
  group: "batch",
  version: "v1",
  resource: "jobs",
  kind: "Job",
  categories: ["all"],
  strategy: {
    hasStatus: true,
    hasGeneration: true,
    applyDefaults: (job) => {
      defaultJobSpec(specOf(job));
    },
    prepareCreate: prepareJob,
    validate: (job) => {
      const spec = fieldsOf(job["spec"]);
      const counts = countCauses(spec, "parallelism", "completions", "backoffLimit");
      return [...counts, ...jobSpecCauses(spec, "spec")];
    },
    validateUpdate: jobChange,
    selectableFields: {
      "status.successful": (job) => asText(valueAt(job, "status", "succeeded") ?? 0),
    },
    columns: [
      { name: "Completions", type: "string", cell: completionsCell },
      { name: "Duration", type: "string", cell: durationCell },
      AGE,
      ...CONTAINER_COLUMNS,
      SELECTOR_COLUMN,
    ],
  },
});

const CONCURRENCY: readonly string[] = ["Allow", "Forbid", "Replace"];

function validateCronJob(job: KubeObject): Cause[] {
  const spec = fieldsOf(job["spec"]);
  const policy = textAt(spec, "concurrencyPolicy");
  return [
    ...(textAt(spec, "schedule") === "" ? [requiredValue("spec.schedule")] : []),
    ...(CONCURRENCY.includes(policy)
      ? []
      : [unsupportedValue("spec.concurrencyPolicy", policy, CONCURRENCY)]),
    ...jobSpecCauses(fieldsOf(valueAt(spec, "jobTemplate", "spec")), "spec.jobTemplate.spec"),
  ];
}

const CRON_JOB: Kind = defineKind({
  group: "batch",
  version: "v1",
  resource: "cronjobs",
  kind: "CronJob",
  shortNames: ["cj"],
  categories: ["all"],
  strategy: {
    hasStatus: true,
    hasGeneration: true,
    applyDefaults: (job) => {
      const spec = specOf(job);
      setDefault(spec, "concurrencyPolicy", "Allow");
      setDefault(spec, "suspend", false);
      setDefault(spec, "successfulJobsHistoryLimit", 3);
      setDefault(spec, "failedJobsHistoryLimit", 1);
      const jobTemplate = fieldsOf(spec["jobTemplate"]);
      const jobSpec = fieldsOf(jobTemplate["spec"]);
      defaultTemplate(jobSpec);
      spec["jobTemplate"] = { ...jobTemplate, spec: jobSpec };
    },
    prepareCreate: (job) => {
      job["status"] = {};
    },
    validate: validateCronJob,
    columns: [
      { name: "Schedule", type: "string", cell: (job) => textAt(job, "spec", "schedule") },
      {
        name: "Timezone",
        type: "string",
        cell: (job) => textAt(job, "spec", "timeZone") || "<none>",
      },
      {
        name: "Suspend",
        type: "string",
        cell: (job) => (valueAt(job, "spec", "suspend") === true ? "True" : "False"),
      },
      {
        name: "Active",
        type: "integer",
        cell: (job) => listOf(valueAt(job, "status", "active")).length,
      },
      {
        name: "Last Schedule",
        type: "string",
        cell: (job, nowMs) => {
          const last = textAt(job, "status", "lastScheduleTime");
          return last === "" ? "<none>" : ageOf(last, nowMs);
        },
      },
      AGE,
    ],
  },
});

/** Jobs and cron jobs. */
export const BATCH_KINDS: readonly Kind[] = [CRON_JOB, JOB];
