// SPDX-License-Identifier: Apache-2.0
// Does docs/reference/standalone/kinds.md say of each kind who acts on it, and of no other?
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openStore } from "../storage/sqlite-store.ts";
import { STORE_ONLY_KINDS } from "./store-only/store-only-kinds.ts";
import { Registry } from "./registry.ts";

const PAGE = join(import.meta.dirname, "../../../../../docs/reference/standalone/kinds.md");

/** Rows of the table of kinds: names in backquotes, and who acts. */
const rows = readFileSync(PAGE, "utf8")
  .split("\n")
  .filter((line) => /^\| `[A-Z]/.test(line))
  .flatMap((line) => {
    const [, kinds = "", who = ""] = line.split("|").map((cell) => cell.trim());
    return [...kinds.matchAll(/`(\w+)`/g)].map(([, kind = ""]) => ({ kind, who }));
  });

async function servedKinds(): Promise<readonly string[]> {
  const store = openStore(":memory:", (error) => {
    throw error;
  });
  const kinds = new Registry(store).list().map(({ kind }) => kind);
  await store.close();
  return [...new Set(kinds)].toSorted();
}

test("each served kind has exactly one row, and no other kind has a row", async () => {
  expect(rows.map(({ kind }) => kind).toSorted()).toEqual(await servedKinds());
});

/** Kinds without a controller that other components read. */
const USED = [
  "ControllerRevision",
  "DeviceClass",
  "NetworkPolicy",
  "PriorityClass",
  "ResourceClaim",
  "ResourceClaimTemplate",
  "ResourceSlice",
];

test("marks exactly the kinds without a controller as store-only", () => {
  const nobodys = rows.filter(({ who }) => who.startsWith("nobody")).map(({ kind }) => kind);
  const kept = STORE_ONLY_KINDS.map(({ kind }) => kind).filter((kind) => !USED.includes(kind));
  expect(nobodys.toSorted()).toEqual(kept.toSorted());
});
