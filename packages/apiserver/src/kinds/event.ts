// SPDX-License-Identifier: Apache-2.0
// What is particular to events: their selectable fields and columns. Source: Kubernetes core/v1 Event.
import { invalidValue } from "../meta/causes.ts";
import { textAt, valueAt } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import { ageOf } from "../table/age.ts";
import { type Kind, defineKind } from "./kind.ts";

const INVOLVED = ["kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"];

function lastSeen(event: KubeObject, nowMs: number): string {
  const time =
    textAt(event, "series", "lastObservedTime") ||
    textAt(event, "lastTimestamp") ||
    textAt(event, "eventTime") ||
    event.metadata.creationTimestamp;
  return ageOf(time, nowMs);
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
    validate: (event) => {
      const of = textAt(event, "involvedObject", "namespace");
      const namespace = event.metadata.namespace ?? "";
      return of === namespace || (of === "" && namespace === "default")
        ? []
        : [invalidValue("involvedObject.namespace", of, "does not match event.namespace")];
    },
    selectableFields: {
      ...Object.fromEntries(
        INVOLVED.map((field) => [
          `involvedObject.${field}`,
          (event: KubeObject) => textAt(event, "involvedObject", field),
        ]),
      ),
      reason: (event) => textAt(event, "reason"),
      type: (event) => textAt(event, "type"),
      source: (event) => textAt(event, "source", "component"),
      reportingComponent: (event) => textAt(event, "reportingComponent"),
    },
    columns: [
      { name: "Last Seen", type: "string", cell: lastSeen },
      { name: "Type", type: "string", cell: (event) => textAt(event, "type") },
      { name: "Reason", type: "string", cell: (event) => textAt(event, "reason") },
      {
        name: "Object",
        type: "string",
        cell: (event) =>
          `${textAt(event, "involvedObject", "kind").toLowerCase()}/${textAt(event, "involvedObject", "name")}`,
      },
      { name: "Message", type: "string", cell: (event) => textAt(event, "message").trim() },
      {
        name: "Count",
        type: "integer",
        priority: 1,
        cell: (event) => valueAt(event, "count") ?? 1,
      },
    ],
  },
});
