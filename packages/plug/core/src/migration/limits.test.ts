// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { moveLimitsOf } from "./limits.ts";

const DEFAULTS = { throttles: false, maxDowntimeMs: 900, silenceMs: 150_000, allowsUnsafe: false };

test.each([
  { name: "nothing that is said", given: undefined, want: DEFAULTS },
  { name: "no limit of bandwidth", given: { bandwidthPerMigration: "0" }, want: DEFAULTS },
  {
    name: "a limit of bandwidth",
    given: { bandwidthPerMigration: "64Mi" },
    want: { ...DEFAULTS, bandwidthMibPerSecond: 64 },
  },
  {
    name: "less than libvirt knows",
    given: { bandwidthPerMigration: 1000 },
    want: { ...DEFAULTS, bandwidthMibPerSecond: 1 },
  },
  {
    name: "all else",
    given: {
      ...{ allowAutoConverge: true, maxDowntimeMs: 300, progressTimeout: 20 },
      unsafeMigrationOverride: true,
    },
    want: { throttles: true, maxDowntimeMs: 300, silenceMs: 20_000, allowsUnsafe: true },
  },
])("of $name", ({ given, want }) => {
  const state = given === undefined ? {} : { migrationConfiguration: given };
  expect(moveLimitsOf(state)).toEqual(want);
});
