// SPDX-License-Identifier: Apache-2.0
// Events in both API groups. Source: Kubernetes core/v1 and events.k8s.io/v1 Event.
import type { Cause } from "../../meta/status.ts";
import { invalidValue, requiredValue, unsupportedValue } from "../../meta/causes.ts";
import { copyJson, textAt, valueAt } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import { printAge } from "../../table/age.ts";
import { type Column, type Kind, type Strategy, bucketOf, defineKind } from "../kind.ts";

const REFERENCE_FIELDS = [
  "kind",
  "namespace",
  "name",
  "uid",
  "apiVersion",
  "resourceVersion",
  "fieldPath",
];

function lastSeen(event: KubeObject, nowMs: number): string {
  const time =
    textAt(event, "series", "lastObservedTime") ||
    textAt(event, "lastTimestamp") ||
    textAt(event, "eventTime") ||
    event.metadata.creationTimestamp;
  return printAge(time, nowMs);
}

function firstSeen(event: KubeObject, nowMs: number): string {
  const time = textAt(event, "firstTimestamp") || textAt(event, "eventTime");
  return printAge(time || event.metadata.creationTimestamp, nowMs);
}

function sourceCell(event: KubeObject): string {
  const component = textAt(event, "source", "component") || textAt(event, "reportingComponent");
  const host = textAt(event, "source", "host") || textAt(event, "reportingInstance");
  return host === "" ? component : `${component}, ${host}`;
}

const COLUMNS: readonly Column[] = [
  { name: "Last Seen", type: "string", cell: lastSeen },
  { name: "Type", type: "string", cell: (event) => textAt(event, "type") },
  { name: "Reason", type: "string", cell: (event) => textAt(event, "reason") },
  {
    name: "Object",
    type: "string",
    cell: (event) =>
      `${textAt(event, "involvedObject", "kind").toLowerCase()}/${textAt(event, "involvedObject", "name")}`,
  },
  {
    name: "Subobject",
    type: "string",
    priority: 1,
    cell: (event) => textAt(event, "involvedObject", "fieldPath"),
  },
  { name: "Source", type: "string", priority: 1, cell: sourceCell },
  { name: "Message", type: "string", cell: (event) => textAt(event, "message").trim() },
  { name: "First Seen", type: "string", priority: 1, cell: firstSeen },
  {
    name: "Count",
    type: "integer",
    priority: 1,
    cell: (event) => valueAt(event, "series", "count") ?? valueAt(event, "count") ?? 1,
  },
  { name: "Name", type: "string", priority: 1, cell: (event) => event.metadata.name },
];

function referenceSelectors(reference: string): Strategy["selectableFields"] {
  return Object.fromEntries(
    REFERENCE_FIELDS.map((field) => [
      `${reference}.${field}`,
      (event: KubeObject) => textAt(event, reference, field),
    ]),
  );
}

function namespaceCauses(event: KubeObject, field: string): Cause[] {
  const referenceNamespace = textAt(event, field, "namespace");
  const namespace = event.metadata.namespace ?? "";
  return referenceNamespace === namespace || (referenceNamespace === "" && namespace === "default")
    ? []
    : [invalidValue(`${field}.namespace`, referenceNamespace, "does not match event.namespace")];
}

export const EVENT: Kind = defineKind({
  group: "",
  version: "v1",
  resource: "events",
  kind: "Event",
  shortNames: ["ev"],
  strategy: {
    allowsCreateOnUpdate: true,
    validate: (event) => namespaceCauses(event, "involvedObject"),
    selectableFields: {
      ...referenceSelectors("involvedObject"),
      reason: (event) => textAt(event, "reason"),
      type: (event) => textAt(event, "type"),
      source: (event) =>
        textAt(event, "source", "component") || textAt(event, "reportingComponent"),
      reportingComponent: (event) => textAt(event, "reportingComponent"),
    },
    columns: COLUMNS,
  },
});

/** Pairs of a field's name in events.k8s.io and its name in the core group. Events are stored with the core names. */
const RENAMED_FIELDS: readonly (readonly [string, string])[] = [
  ["note", "message"],
  ["regarding", "involvedObject"],
  ["reportingController", "reportingComponent"],
  ["deprecatedCount", "count"],
  ["deprecatedFirstTimestamp", "firstTimestamp"],
  ["deprecatedLastTimestamp", "lastTimestamp"],
  ["deprecatedSource", "source"],
];

function renameFields(
  event: KubeObject,
  apiVersion: string,
  names: ReadonlyMap<string, string>,
): KubeObject {
  const { metadata, kind, ...fields } = copyJson(event);
  const entries = Object.entries(fields).map(([key, value]) => [names.get(key) ?? key, value]);
  return { ...Object.fromEntries(entries), apiVersion, kind, metadata } as KubeObject;
}

const TO_STORED = new Map(RENAMED_FIELDS);
const FROM_STORED = new Map(RENAMED_FIELDS.map(([viewName, storedName]) => [storedName, viewName]));

const REQUIRED_FIELDS = ["reportingController", "reportingInstance", "action", "reason"] as const;
const EVENT_TYPES: readonly string[] = ["Normal", "Warning"];

/** Checks an event of events.k8s.io. Does not check events with deprecatedLastTimestamp, which older clients create. */
function validateNew(event: KubeObject): Cause[] {
  const type = textAt(event, "type");
  const isLegacy = textAt(event, "deprecatedLastTimestamp") !== "";
  return isLegacy || event["eventTime"] !== undefined
    ? [
        ...(isLegacy
          ? []
          : REQUIRED_FIELDS.filter((key) => textAt(event, key) === "").map((key) =>
              requiredValue(key),
            )),
        ...(isLegacy || EVENT_TYPES.includes(type)
          ? []
          : [unsupportedValue("type", type, EVENT_TYPES)]),
      ]
    : [requiredValue("eventTime")];
}

/** Kind Event of events.k8s.io. Its objects are stored as core events, under the field names of core/v1. */
export const EVENTS_K8S_IO_EVENT: Kind = defineKind({
  group: "events.k8s.io",
  version: "v1",
  resource: "events",
  kind: "Event",
  shortNames: ["ev"],
  view: {
    bucket: bucketOf(EVENT),
    fromStored: (event) => renameFields(event, "events.k8s.io/v1", FROM_STORED),
    toStored: (event) => renameFields(event, "v1", TO_STORED),
  },
  strategy: {
    allowsCreateOnUpdate: true,
    validate: (event) => [...namespaceCauses(event, "regarding"), ...validateNew(event)],
    selectableFields: {
      ...referenceSelectors("regarding"),
      reason: (event) => textAt(event, "reason"),
      type: (event) => textAt(event, "type"),
      reportingController: (event) => textAt(event, "reportingController"),
    },
    columns: COLUMNS.map((column) => ({
      ...column,
      cell: (event, nowMs) => column.cell(renameFields(event, "v1", TO_STORED), nowMs),
    })),
  },
});
