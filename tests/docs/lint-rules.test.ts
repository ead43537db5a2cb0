// SPDX-License-Identifier: Apache-2.0
// Is every rule that needs types, of the strictest set that typescript-eslint has, one that oxlint is told to look for?
import tseslint from "typescript-eslint";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { readText } from "./documents.ts";

/** What oxlint does not know (ADR 0114). */
const UNKNOWN = ["typescript/no-unsafe-class-instance-assignment"];
const OWN = "@typescript-eslint/";

/** Names and severities of rules, as oxlint has them. */
function typedRules(): readonly string[] {
  const rules = tseslint.configs.strictTypeCheckedOnly.flatMap((each) =>
    Object.entries(each.rules ?? {}),
  );
  return rules
    .filter(([name, how]) => name.startsWith(OWN) && how !== "off")
    .map(([name]) => name.replace(OWN, "typescript/"));
}

test("oxlint looks for every rule that needs types", () => {
  // JSON with comments, each on a line of its own.
  const lines = readText(".oxlintrc.json").split("\n");
  const text = lines.filter((line) => !line.trimStart().startsWith("//")).join("\n");
  const { rules } = parse(text) as { readonly rules: Readonly<Record<string, unknown>> };
  const wanted = typedRules();
  expect(wanted).toEqual(expect.arrayContaining(UNKNOWN));
  const missing = wanted.filter((name) => !(name in rules));
  expect(missing).toEqual(UNKNOWN);
});
