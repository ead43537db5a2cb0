// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { harmless, supportedValues, quantity, oneOf, unbuilt } from "./notation.ts";
import { listQuantities, listSchemaFields, listUnsupportedFields } from "./walk.ts";

const SCHEMA = {
  type: "object",
  required: ["name"],
  properties: {
    name: { type: "string", description: "Name." },
    amount: { "x-kubernetes-int-or-string": true },
    entries: {
      type: "array",
      description: "Entries.",
      items: { type: "object", properties: { value: { type: "integer" } } },
    },
    labels: { type: "object", additionalProperties: { type: "boolean" } },
    kept: harmless({ type: "object", properties: { inner: { type: "string" } } }),
    missing: unbuilt({ type: "string" }),
    broken: "no schema",
  },
};

test("lists every field of a schema with its own or inherited list", () => {
  const acted = { required: false, level: "acted", description: "" };
  expect(listSchemaFields(SCHEMA, "spec")).toEqual([
    { path: "spec.name", type: "string", required: true, level: "acted", description: "Name." },
    { ...acted, path: "spec.amount", type: "string|integer|number" },
    { ...acted, path: "spec.entries[]", type: "object", description: "Entries." },
    { ...acted, path: "spec.entries[].value", type: "integer" },
    { ...acted, path: "spec.labels{}", type: "boolean" },
    { ...acted, path: "spec.kept", type: "object", level: "harmless" },
    { ...acted, path: "spec.kept.inner", type: "string", level: "harmless" },
    { ...acted, path: "spec.missing", type: "string", level: "unbuilt" },
  ]);
});

test("a schema without properties has no fields", () => {
  expect(listSchemaFields({ type: "string" }, "spec")).toEqual([]);
  expect(listUnsupportedFields({ type: "object" }, { name: "a" }, "spec")).toEqual([]);
});

test("names only the topmost unsupported path", () => {
  const value = { name: "a", kept: { inner: "b" }, missing: "c", broken: "d" };
  expect(
    listUnsupportedFields(SCHEMA, value, "").map(({ path, mark }) => [path, mark.level]),
  ).toEqual([
    ["kept", "harmless"],
    ["missing", "unbuilt"],
  ]);
  expect(listUnsupportedFields(SCHEMA, [value], "spec")).toEqual([]);
});

const PARTLY = {
  type: "object",
  properties: {
    bus: { type: "string", ...supportedValues(oneOf("", "sata"), "use sata") },
    sizes: { type: "object", additionalProperties: quantity("Size.") },
    disks: { type: "array", items: { type: "object", properties: { size: quantity("Size.") } } },
  },
};

test("reports an unsupported value and the alternative", () => {
  const path = "spec.bus";
  expect(listUnsupportedFields(PARTLY, { bus: "usb" }, "spec")).toEqual([
    { path, mark: { level: "unbuilt", hint: "use sata" } },
  ]);
  expect(
    ["", "sata", undefined].map((bus) => listUnsupportedFields(PARTLY, { bus }, "spec")),
  ).toEqual([[], [], []]);
  expect(listSchemaFields(PARTLY, "spec").find((field) => field.path === path)).toMatchObject({
    level: "acted",
    hint: "use sata",
  });
});

test("finds quantities in maps and lists", () => {
  const value = { sizes: { a: "1Gi", b: 2 }, disks: [{ size: "x" }, {}], bus: "usb" };
  expect(
    listQuantities(PARTLY, value, "spec").map(({ path, value: amount }) => [path, amount]),
  ).toEqual([
    ["spec.sizes.a", "1Gi"],
    ["spec.sizes.b", 2],
    ["spec.disks[0].size", "x"],
  ]);
});
