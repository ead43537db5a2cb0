// SPDX-License-Identifier: Apache-2.0
// Rows of KubeVirt's own test tables: the same result as there, or another one and why.
// Source: KubeVirt v1.0.1, v1.1.1 and v1.9.0-rc.2; each row names its file.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { Case, Cases } from "./testing/kubevirt-case.ts";
import { ANNOTATION_CASES, STATUS_CASES } from "./testing/kubevirt-pod.ts";
import {
  ADMISSION_CASES,
  HANDLER_CASES,
  MIGRATION_CASES,
  SUBRESOURCE_CASES,
} from "./testing/kubevirt-rest.ts";
import { HOTPLUG_CASES, RESTART_CASES } from "./testing/kubevirt-specs.ts";

interface Row {
  readonly area: string;
  readonly name: string;
  readonly input: unknown;
  readonly expected: unknown;
}

const PATH = join(import.meta.dirname, "testing/kubevirt-rows.json");
// The fixture is ours. Rows of name-hashing are run where KubeVirt itself is played, by tests/contract/net-agent.
const ROWS = (JSON.parse(readFileSync(PATH, "utf8")) as readonly Row[]).filter(
  ({ area }) => area !== "name-hashing",
);

const CASES: Readonly<Record<string, Cases>> = {
  "multus-annotation": ANNOTATION_CASES,
  status: STATUS_CASES,
  "hotplug-decision": HOTPLUG_CASES,
  migration: MIGRATION_CASES,
  "restart-required": RESTART_CASES,
  "handler-filter": HANDLER_CASES,
  admission: ADMISSION_CASES,
  subresource: SUBRESOURCE_CASES,
};

/** A sentence of KubeVirt's stays the first one; ours behind it says what to do. */
function beginningWith(text: unknown): unknown {
  const escaped = String(text).replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  return expect.stringMatching(new RegExp(`^${escaped}($|[.]? [A-Z])`)) as unknown;
}

/** A row may say of a message only what it must match. */
function matching(expected: unknown): unknown {
  if (Array.isArray(expected)) return expected.map(matching);
  if (typeof expected !== "object" || expected === null) return expected;
  const fields = Object.entries(expected).map(([key, value]): [string, unknown] =>
    key === "messageRegex"
      ? ["message", expect.stringMatching(new RegExp(String(value)))]
      : [key, key === "message" ? beginningWith(value) : matching(value)],
  );
  return Object.fromEntries(fields);
}

type CaseOf<Kind extends Case["kind"]> = Extract<Case, { readonly kind: Kind }>;

function findCase({ area, name }: Row): Case | undefined {
  return CASES[area]?.[name];
}

function titleOf(row: Row): string {
  const answer = findCase(row);
  const how = answer?.kind === "ours" ? `: otherwise: ${answer.why}` : "";
  return `${row.area}: ${row.name}${how}`;
}

function checkSame({ input, expected }: Row, answer: CaseOf<"same">): void {
  // Each case reads the fields of its own rows.
  expect(answer.run(input as never)).toEqual(matching(expected));
}

function checkOurs({ input, expected }: Row, answer: CaseOf<"ours">): void {
  expect(answer.run(input as never)).toEqual(answer.value);
  expect(answer.value).not.toEqual(expected);
}

function check(row: Row, answer: Case): void {
  switch (answer.kind) {
    case "same":
      checkSame(row, answer);
      return;
    case "ours":
      checkOurs(row, answer);
  }
}

describe("rows of KubeVirt's tests", () => {
  test("each row has an answer, and each answer has its row", () => {
    const named = ROWS.map(({ area, name }) => `${area}: ${name}`).sort();
    const replied = Object.entries(CASES).flatMap(([area, cases]) =>
      Object.keys(cases).map((name) => `${area}: ${name}`),
    );
    expect(replied.sort()).toEqual(named);
  });

  test.each(ROWS.map((row) => ({ title: titleOf(row), row })))("$title", ({ row }) => {
    const answer = findCase(row);
    expect(answer).toBeDefined();
    if (answer !== undefined) check(row, answer);
  });
});
