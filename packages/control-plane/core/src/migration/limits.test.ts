// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { aVmi } from "@patchbay/support";
import { downtimeAt, mayDisruptNow, readMigrationLimits } from "./limits.ts";

const DEFAULTS = {
  throttles: false,
  maxDowntimeMs: 900,
  stallTimeoutMs: 150_000,
  allowsUnsafe: false,
};

test.each([
  { name: "defaults without a configuration", given: undefined, want: DEFAULTS },
  { name: "no bandwidth limit", given: { bandwidthPerMigration: "0" }, want: DEFAULTS },
  {
    name: "a bandwidth limit",
    given: { bandwidthPerMigration: "64Mi" },
    want: { ...DEFAULTS, bandwidthMibPerSecond: 64 },
  },
  {
    name: "a bandwidth limit below libvirt's minimum",
    given: { bandwidthPerMigration: 1000 },
    want: { ...DEFAULTS, bandwidthMibPerSecond: 1 },
  },
  {
    name: "all other limits",
    given: {
      allowAutoConverge: true,
      maxDowntimeMs: 300,
      progressTimeout: 20,
      unsafeMigrationOverride: true,
    },
    want: { throttles: true, maxDowntimeMs: 300, stallTimeoutMs: 20_000, allowsUnsafe: true },
  },
])("reads the limits: $name", ({ given: input, want }) => {
  const state = input === undefined ? {} : { migrationConfiguration: input };
  expect(readMigrationLimits(state)).toEqual(want);
});

const ITERATIONS = [1, 2, 3, 4, 5, 6, 7];

test.each([
  {
    name: "grows from a short time to the maximum",
    given: { maxDowntimeMs: 900, isEmulated: false },
    want: [100, 100, 100, 225, 450, 900, 900],
  },
  {
    name: "is the maximum at once for an emulated guest",
    given: { maxDowntimeMs: 900, isEmulated: true },
    want: [900, 900, 900, 900, 900, 900, 900],
  },
  {
    name: "is never zero",
    given: { maxDowntimeMs: 1, isEmulated: false },
    want: [1, 1, 1, 1, 1, 1, 1],
  },
])("limits the guest's downtime: $name", ({ given: input, want }) => {
  expect(ITERATIONS.map((iteration) => downtimeAt(iteration, input))).toEqual(want);
});

test.each([
  { name: "disruption is not allowed", given: {}, afterS: 1000, want: false },
  {
    name: "disruption is allowed and the timeout has not passed",
    given: { allowWorkloadDisruption: true },
    afterS: 19,
    want: false,
  },
  {
    name: "disruption is allowed and the timeout has passed",
    given: { allowWorkloadDisruption: true },
    afterS: 20,
    want: true,
  },
])("a guest may be disrupted if $name: $want", ({ given: input, afterS, want }) => {
  const state = {
    startTimestamp: "2026-01-01T00:00:00Z",
    migrationConfiguration: { completionTimeoutPerGiB: 20, ...input },
  };
  const nowMs = 1_767_225_600_000 + afterS * 1000;
  expect(mayDisruptNow(state, aVmi(), nowMs)).toBe(want);
  expect(mayDisruptNow({ ...state, startTimestamp: "" }, aVmi(), nowMs)).toBe(false);
});
