// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { buildProblemsFamily } from "./loop.ts";

test.each([
  { name: "a definition without problems is not counted", given: [[], []], want: [] },
  {
    name: "a definition with two problems counts once under each",
    given: [["PluginMissing", "DefinitionTolerated"], ["DefinitionTolerated"], ["A", "A"]],
    want: ["PluginMissing 1", "DefinitionTolerated 2", "A 1"],
  },
])("$name", ({ given, want }) => {
  const { samples } = buildProblemsFamily(given.map((reasons) => ({ reasons })));
  expect(
    samples.map(({ labels, value }) => `${String(labels["reason"])} ${String(value)}`),
  ).toEqual(want);
});
