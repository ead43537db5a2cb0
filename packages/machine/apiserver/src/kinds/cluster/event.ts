// SPDX-License-Identifier: Apache-2.0
// What is particular to events, in both groups that show them. Source: Kubernetes core/v1 and events.k8s.io/v1 Event.
import type { Cause } from "../../meta/status.ts";
import { invalidValue, requiredValue, unsupportedValue } from "../../meta/causes.ts";
import { copyJson, textAt, valueAt } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import { ageOf } from "../../table/age.ts";
import { type Column, type Kind, type Strategy, bucketOf, defineKind } from "../kind.ts";

const INVOLVED = ["kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"];

function lastSeen(event: KubeObject, nowMs: number): string {
  const time =
    textAt(event, "series", "lastObservedTime") ||
    textAt(event, "lastTimestamp") ||
    textAt(event, "eventTime") ||
    event.metadata.creationTimestamp;
  return ageOf(time, nowMs);
}

function firstSeen(event: KubeObject, nowMs: number): string {
  const time = textAt(event, "firstTimestamp") || textAt(event, "eventTime");
  return ageOf(time || event.metadata.creationTimestamp, nowMs);
}

/** Components are named `component, host`. */
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

function selectors(of: string): Strategy["selectableFields"] {
  return Object.fromEntries(
    INVOLVED.map((field) => [`${of}.${field}`, (event: KubeObject) => textAt(event, of, field)]),
  );
}

function namespaceCauses(event: KubeObject, field: string): Cause[] {
  const of = textAt(event, field, "namespace");
  const namespace = event.metadata.namespace ?? "";
  return of === namespace || (of === "" && namespace === "default")
    ? []
    : [invalidValue(`${field}.namespace`, of, "does not match event.namespace")];
}

/** Events of the core group. */
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
      ...selectors("involvedObject"),
      reason: (event) => textAt(event, "reason"),
      type: (event) => textAt(event, "type"),
      source: (event) =>
        textAt(event, "source", "component") || textAt(event, "reportingComponent"),
      reportingComponent: (event) => textAt(event, "reportingComponent"),
    },
    columns: COLUMNS,
  },
});

/** Names of fields in events.k8s.io and, as stored, in the core group. The others are the same. */
const RENAMED: readonly (readonly [string, string])[] = [
  ["note", "message"],
  ["regarding", "involvedObject"],
  ["reportingController", "reportingComponent"],
  ["deprecatedCount", "count"],
  ["deprecatedFirstTimestamp", "firstTimestamp"],
  ["deprecatedLastTimestamp", "lastTimestamp"],
  ["deprecatedSource", "source"],
];

function renamed(
  event: KubeObject,
  apiVersion: string,
  names: ReadonlyMap<string, string>,
): KubeObject {
  const { metadata, kind, ...fields } = copyJson(event);
  const entries = Object.entries(fields).map(([key, value]) => [names.get(key) ?? key, value]);
  return { ...Object.fromEntries(entries), apiVersion, kind, metadata } as KubeObject;
}

const TO_STORED = new Map(RENAMED);
const FROM_STORED = new Map(RENAMED.map(([shown, stored]) => [stored, shown]));

const NEEDED = ["reportingController", "reportingInstance", "action", "reason"] as const;
const TYPES: readonly string[] = ["Normal", "Warning"];

/** Events that were made in the core group are shown here too; only what is written here has to have everything. */
function validateNew(event: KubeObject): Cause[] {
  const type = textAt(event, "type");
  const isOld = textAt(event, "deprecatedLastTimestamp") !== "";
  return isOld || event["eventTime"] !== undefined
    ? [
        ...(isOld
          ? []
          : NEEDED.filter((key) => textAt(event, key) === "").map((key) => requiredValue(key))),
        ...(isOld || TYPES.includes(type) ? [] : [unsupportedValue("type", type, TYPES)]),
      ]
    : [requiredValue("eventTime")];
}

/** The same events under their newer names. */
export const NEW_EVENT: Kind = defineKind({
  group: "events.k8s.io",
  version: "v1",
  resource: "events",
  kind: "Event",
  shortNames: ["ev"],
  view: {
    bucket: bucketOf(EVENT),
    fromStored: (event) => renamed(event, "events.k8s.io/v1", FROM_STORED),
    toStored: (event) => renamed(event, "v1", TO_STORED),
  },
  strategy: {
    allowsCreateOnUpdate: true,
    validate: (event) => [...namespaceCauses(event, "regarding"), ...validateNew(event)],
    selectableFields: {
      ...selectors("regarding"),
      reason: (event) => textAt(event, "reason"),
      type: (event) => textAt(event, "type"),
      reportingController: (event) => textAt(event, "reportingController"),
    },
    columns: COLUMNS.map((column) => ({
      ...column,
      cell: (event, nowMs) => column.cell(renamed(event, "v1", TO_STORED), nowMs),
    })),
  },
});
