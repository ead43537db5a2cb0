// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { buildConditions } from "./conditions.ts";

test.each([
  { webhook: "mutate.virt-api.patchbay.io", want: ["spec-is-new", "may-lack-something"] },
  { webhook: "validate.virt-api.patchbay.io", want: ["spec-is-new"] },
  { webhook: "guard.virt-api.patchbay.io", want: ["by-an-agent"] },
  { webhook: "launcher.virt-api.patchbay.io", want: ["nodes-word-is-new"] },
  { webhook: "migrations.virt-api.patchbay.io", want: ["spec-is-new"] },
  { webhook: "another.io", want: [] },
])("webhook $webhook has the match conditions $want", ({ webhook, want }) => {
  expect(buildConditions(webhook).map(({ name }) => name)).toEqual(want);
});
