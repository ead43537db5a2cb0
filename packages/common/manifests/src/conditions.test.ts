// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { buildConditions } from "./conditions.ts";

test.each([
  { webhook: "mutate.virt-api.patchbay.io", want: ["spec-changed", "may-be-incomplete"] },
  { webhook: "validate.virt-api.patchbay.io", want: ["spec-changed"] },
  { webhook: "guard.virt-api.patchbay.io", want: ["by-virt-handler"] },
  { webhook: "launcher.virt-api.patchbay.io", want: ["node-data-changed"] },
  { webhook: "migrations.virt-api.patchbay.io", want: ["spec-changed"] },
  { webhook: "another.io", want: [] },
])("webhook $webhook has the match conditions $want", ({ webhook, want }) => {
  expect(buildConditions(webhook).map(({ name }) => name)).toEqual(want);
});
