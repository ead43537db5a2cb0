// SPDX-License-Identifier: Apache-2.0
// What is particular to namespaces, events and leases.
import { expect, test } from "vitest";
import type { Fields } from "../../objects/json.ts";
import { created, objectOf, refusals } from "../../testing/judge.ts";
import { EVENT, EVENTS_K8S_IO_EVENT } from "./event.ts";
import { LEASE } from "./node.ts";
import { NAMESPACE } from "./namespace.ts";

const LABELS = { "kubernetes.io/metadata.name": "o" };

test.each<{ name: string; given: Fields; labels?: Fields; finalizers: readonly string[] }>([
  { name: "nothing", given: {}, finalizers: ["kubernetes"] },
  {
    name: "a name label and a finalizer",
    given: { metadata: { labels: { a: "b" } }, spec: { finalizers: ["x.io/a"] } },
    labels: { a: "b" },
    finalizers: ["x.io/a", "kubernetes"],
  },
  {
    name: "the finalizer already",
    given: { spec: { finalizers: ["kubernetes", "x.io/a"] }, status: { phase: "Gone" } },
    finalizers: ["kubernetes", "x.io/a"],
  },
])("completes a namespace with $name", ({ given, labels = {}, finalizers }) => {
  const namespace = created(NAMESPACE, given);
  expect(namespace.metadata.labels).toEqual({ ...labels, ...LABELS });
  expect(namespace["spec"]).toEqual({ finalizers });
  expect(namespace["status"]).toEqual({ phase: "Active" });
});

test("a client cannot change the finalizers and the name label of a namespace", () => {
  const current = objectOf(NAMESPACE, { spec: { finalizers: ["kubernetes"] } });
  const change = objectOf(NAMESPACE, {
    metadata: { labels: { ...LABELS, "kubernetes.io/metadata.name": "other", a: "b" } },
    spec: { finalizers: [] },
  });
  NAMESPACE.strategy.prepareUpdate?.(change, current);
  expect(change.metadata.labels).toEqual({ ...LABELS, a: "b" });
  expect(change["spec"]).toEqual({ finalizers: ["kubernetes"] });
});

test("a deleted namespace is Terminating, without a grace period", () => {
  const namespace = objectOf(NAMESPACE, {
    metadata: { deletionGracePeriodSeconds: 0 },
    status: { phase: "Active", conditions: [] },
  });
  NAMESPACE.strategy.beginDeletion?.(namespace);
  expect(namespace["status"]).toEqual({ phase: "Terminating", conditions: [] });
  expect(namespace.metadata).toEqual({ name: "o" });
});

test("a namespace cannot be deleted by a collection request", () => {
  expect(NAMESPACE.verbs).not.toContain("deletecollection");
  expect(NAMESPACE.verbs).toHaveLength(7);
});

const complete = {
  metadata: { namespace: "n" },
  regarding: { namespace: "n", name: "p", kind: "Pod" },
  eventTime: "2024-01-01T00:00:00.000000Z",
  reportingController: "c",
  reportingInstance: "i",
  action: "a",
  reason: "r",
  type: "Normal",
};
const MISMATCH = "does not match event.namespace";

test.each<{ name: string; given: Fields; want: readonly string[] }>([
  { name: "all required fields", given: complete, want: [] },
  {
    name: "no time",
    given: { ...complete, eventTime: undefined, type: "x" },
    want: ["eventTime: Required value"],
  },
  {
    name: "only a time",
    given: { metadata: {}, eventTime: "t" },
    want: [
      "reportingController: Required value",
      "reportingInstance: Required value",
      "action: Required value",
      "reason: Required value",
      'type: Unsupported value: "": supported values: "Normal", "Warning"',
    ],
  },
  {
    name: "the fields of the core group",
    given: { metadata: {}, deprecatedLastTimestamp: "t" },
    want: [],
  },
  {
    name: "an object of another namespace",
    given: { ...complete, regarding: { namespace: "m" } },
    want: [`regarding.namespace: Invalid value: "m": ${MISMATCH}`],
  },
  {
    name: "a cluster-scoped object in another namespace than default",
    given: { ...complete, regarding: {} },
    want: [`regarding.namespace: Invalid value: "": ${MISMATCH}`],
  },
  {
    name: "a cluster-scoped object in namespace default",
    given: { ...complete, metadata: { namespace: "default" }, regarding: {} },
    want: [],
  },
])("an event of events.k8s.io with $name", ({ given, want }) => {
  expect(refusals(EVENTS_K8S_IO_EVENT, given)).toEqual(want);
});

test.each([
  { namespace: "n", of: "n", want: [] },
  { namespace: "n", of: "m", want: [`involvedObject.namespace: Invalid value: "m": ${MISMATCH}`] },
])("an event in $namespace for an object in $of", ({ namespace, of, want }) => {
  expect(refusals(EVENT, { metadata: { namespace }, involvedObject: { namespace: of } })).toEqual(
    want,
  );
});

test("an event reads the same through both of its APIs", () => {
  const shown = objectOf(EVENTS_K8S_IO_EVENT, {
    note: "m",
    regarding: { name: "p" },
    reportingController: "c",
    deprecatedCount: 1,
    deprecatedFirstTimestamp: "f",
    deprecatedLastTimestamp: "l",
    deprecatedSource: { component: "c" },
    reason: "r",
  });
  const stored = objectOf(EVENT, {
    message: "m",
    involvedObject: { name: "p" },
    reportingComponent: "c",
    count: 1,
    firstTimestamp: "f",
    lastTimestamp: "l",
    source: { component: "c" },
    reason: "r",
  });
  expect(EVENTS_K8S_IO_EVENT.view?.toStored(shown)).toEqual(stored);
  expect(EVENTS_K8S_IO_EVENT.view?.fromStored(stored)).toEqual(shown);
});

test.each([
  { kind: EVENT, field: "involvedObject.uid", given: { involvedObject: { uid: "u" } }, want: "u" },
  { kind: EVENT, field: "involvedObject.fieldPath", given: {}, want: "" },
  { kind: EVENT, field: "reason", given: { reason: "r" }, want: "r" },
  { kind: EVENT, field: "type", given: { type: "t" }, want: "t" },
  { kind: EVENT, field: "source", given: { source: { component: "c" } }, want: "c" },
  { kind: EVENT, field: "source", given: { reportingComponent: "r" }, want: "r" },
  { kind: EVENT, field: "reportingComponent", given: { reportingComponent: "r" }, want: "r" },
  {
    kind: EVENTS_K8S_IO_EVENT,
    field: "regarding.kind",
    given: { regarding: { kind: "k" } },
    want: "k",
  },
  { kind: EVENTS_K8S_IO_EVENT, field: "reason", given: { reason: "r" }, want: "r" },
  { kind: EVENTS_K8S_IO_EVENT, field: "type", given: { type: "t" }, want: "t" },
  {
    kind: EVENTS_K8S_IO_EVENT,
    field: "reportingController",
    given: { reportingController: "c" },
    want: "c",
  },
])("selects events by $field: $want", ({ kind, field, given, want }) => {
  expect(kind.strategy.selectableFields[field]?.(objectOf(kind, given))).toBe(want);
});

test.each([
  { seconds: 1, want: [] },
  { seconds: undefined, want: [] },
  {
    seconds: 0,
    want: ["spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"],
  },
])("a lease of $seconds s: $want", ({ seconds, want }) => {
  expect(refusals(LEASE, { spec: { leaseDurationSeconds: seconds } })).toEqual(want);
});
