// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { COLORS, listJacks } from "./jacks.ts";

function coloursOf(...keys: readonly string[]): ReadonlyMap<string, number> {
  const networks = new Map(
    keys.map((key) => {
      const [namespace = "", name = ""] = key.split("/");
      const definition = { apiVersion: "v1", kind: "N", metadata: { namespace, name } };
      return [key, definition] as const;
    }),
  );
  return new Map(listJacks(networks, []).map(({ key, color }) => [key, color]));
}

test("a network's color does not depend on other networks", () => {
  const before = coloursOf("ns/blue");
  const after = coloursOf("a/first", "ns/blue", "ns/another");
  expect(after.get("ns/blue")).toBe(before.get("ns/blue"));
  expect(after.get("pod")).toBe(0);
});

test("networks have several colors, except that of the pod network", () => {
  const keys = Array.from({ length: 40 }, (_, index) => `ns/net${String(index)}`);
  const colours = [...coloursOf(...keys)].flatMap(([key, color]) => (key === "pod" ? [] : [color]));
  expect(new Set(colours)).toEqual(new Set(Array.from({ length: COLORS - 1 }, (_, n) => n + 1)));
});
