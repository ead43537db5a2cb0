// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { isListed, NO_OBJECTS, withLine, type Line, type Objects } from "./objects.ts";
import { escapeLines, toLongText, toShortText } from "./shown.ts";

const vm = (name: string, version = "1") => ({
  apiVersion: "kubevirt.io/v1",
  kind: "VirtualMachine",
  metadata: { namespace: "blue", name, resourceVersion: version },
});

describe("lines of the watch", () => {
  const listed: Line = { kind: "listed", of: "vms", objects: [vm("a"), vm("b")] };

  test.each<{ name: string; told: readonly Line[]; want: readonly string[] }>([
    { name: "a list", told: [listed], want: ["blue/a", "blue/b"] },
    {
      name: "a second list drops deleted objects",
      told: [listed, { ...listed, objects: [vm("c")] }],
      want: ["blue/c"],
    },
    {
      name: "an applied line adds an object",
      told: [listed, { kind: "applied", of: "vms", object: vm("c") }],
      want: ["blue/a", "blue/b", "blue/c"],
    },
    {
      name: "a removed line deletes an object",
      told: [listed, { kind: "removed", of: "vms", object: vm("a") }],
      want: ["blue/b"],
    },
  ])("$name", ({ told, want }) => {
    expect([...told.reduce(withLine, NO_OBJECTS).vms.keys()]).toEqual(want);
  });

  test("objects that a line does not contain retain their identity", () => {
    const before = withLine(NO_OBJECTS, listed);
    const after = withLine(before, { kind: "applied", of: "vms", object: vm("a", "2") });
    expect(after.vms.get("blue/b")).toBe(before.vms.get("blue/b"));
    expect(after.vms.get("blue/a")).not.toBe(before.vms.get("blue/a"));
    expect(after.vmis).toBe(before.vmis);
    expect(after.listed).toEqual(new Set(["vms"]));
  });

  test("isListed is true once every kind was listed", () => {
    const listAll = (["vmis", "networks", "vms"] as const).map((of) => ({ ...listed, of }));
    expect(isListed(listAll.slice(0, 2).reduce<Objects>(withLine, NO_OBJECTS))).toBe(false);
    expect(isListed(listAll.reduce<Objects>(withLine, NO_OBJECTS))).toBe(true);
  });

  test("stores the only visible namespace", () => {
    const scope = { kind: "scope", of: "vms" } as const;
    expect(withLine(NO_OBJECTS, { ...scope, namespace: "blue" }).onlyIn).toBe("blue");
    expect(withLine(NO_OBJECTS, { ...scope, namespace: null })).toBe(NO_OBJECTS);
    expect(withLine(NO_OBJECTS, { ...scope, of: "networks", namespace: "blue" })).toBe(NO_OBJECTS);
  });
});

describe("foreign text", () => {
  test.each([
    { name: "is unchanged", given: "br-blue ü", want: "br-blue ü" },
    {
      name: "has its bidirectional marks escaped",
      given: "a\u202eb\u2066c",
      want: String.raw`a\u202eb\u2066c`,
    },
    { name: "has its line ends escaped", given: "a\nb\u2028c", want: String.raw`a\u000ab\u2028c` },
    { name: "is not interpreted as markup", given: "<b>&amp;", want: "<b>&amp;" },
    { name: "may be missing", given: undefined, want: "" },
  ])("$name", ({ given, want }) => {
    expect(toShortText(given)).toBe(want);
  });

  test("is truncated", () => {
    expect(toShortText("x".repeat(10_000))).toHaveLength(80);
    expect(toLongText("x".repeat(10_000))).toHaveLength(2000);
    expect(toLongText("x".repeat(10_000)).endsWith("…")).toBe(true);
  });

  test("keeps line ends of Patchbay's own text", () => {
    expect(escapeLines("a: 1\nb: \u202e2\n")).toBe("a: 1\nb: \\u202e2\n");
  });
});
