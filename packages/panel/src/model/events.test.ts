// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { parseEventRows } from "./events.ts";

const OLD = "2026-11-26T14:00:00Z";
const NEW = "2026-11-26T15:00:00Z";

function eventOf(more: object) {
  return {
    metadata: { name: "a", creationTimestamp: OLD },
    involvedObject: { kind: "VirtualMachineInstance", name: "db" },
    type: "Normal",
    reason: "Created",
    message: "it runs",
    ...more,
  };
}

function rowsOf(...items: readonly object[]) {
  return parseEventRows(JSON.stringify({ items }));
}

test("lists the newest event first, with its count", () => {
  const rows = rowsOf(
    eventOf({ lastTimestamp: OLD }),
    eventOf({ type: "Warning", reason: "CniFailed", lastTimestamp: NEW, count: 3 }),
  );
  expect(rows).toEqual([
    { lastTime: NEW, isWarning: true, reason: "CniFailed", message: "it runs", count: 3 },
    { lastTime: OLD, isWarning: false, reason: "Created", message: "it runs", count: 1 },
  ]);
});

test.each([
  {
    name: "its series' lastObservedTime",
    event: { series: { count: 7, lastObservedTime: NEW } },
    want: [NEW, 7],
  },
  { name: "its time", event: { eventTime: NEW, lastTimestamp: null }, want: [NEW, 1] },
  { name: "its object", event: {}, want: [OLD, 1] },
])("takes the time of an event from $name if other fields are unset", ({ event, want }) => {
  expect(rowsOf(eventOf(event)).map(({ lastTime, count }) => [lastTime, count])).toEqual([want]);
});

test("omits events of pods with the same name, and the oldest events", () => {
  const ofPod = eventOf({ involvedObject: { kind: "Pod", name: "db" } });
  const many = Array.from({ length: 20 }, () => eventOf({}));
  expect(rowsOf(ofPod)).toEqual([]);
  expect(rowsOf(...many)).toHaveLength(12);
  expect(parseEventRows("{}")).toEqual([]);
});

test("escapes text of events", () => {
  const [row] = rowsOf(eventOf({ message: "a\u202eb", reason: "c\nd" }));
  expect(row).toMatchObject({ message: "a\\u202eb", reason: "c\\u000ad" });
});
