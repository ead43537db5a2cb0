// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { isRelevant, IrrelevantEventCounter } from "./watch-events.ts";

test.each([
  { event: "rename", name: "libvirt-sock", want: true },
  { event: "rename", name: "other", want: false },
  { event: "change", name: "libvirt-sock", want: false },
  { event: "rename", name: null, want: true },
  { event: "change", name: null, want: false },
  { event: "rename", name: "17", want: true },
  { event: "change", name: "17", want: false },
  { event: "rename", name: "17a", want: false },
  { event: "rename", name: "a17", want: false },
  { event: "rename", name: "", want: false },
])("event $event of $name affects libvirt-sock: $want", ({ event, name, want }) => {
  expect(isRelevant(event, name, "libvirt-sock")).toBe(want);
});

test("limits irrelevant events to fifty in a row", () => {
  const noise = new IrrelevantEventCounter();
  const count = (): readonly boolean[] => Array.from({ length: 50 }, () => noise.countAndCheck());
  const want = [...Array.from({ length: 49 }, () => false), true];
  expect(count()).toEqual(want);
  noise.reset();
  expect(count()).toEqual(want);
});
