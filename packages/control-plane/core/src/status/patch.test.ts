// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { pointerToken, statusPatch } from "./patch.ts";

const metadata = { name: "vm", resourceVersion: "7" };
const kind = { apiVersion: "v1", kind: "Thing", metadata };
const VERSION = { op: "test", path: "/metadata/resourceVersion", value: "7" };

test("pointerToken escapes slashes and tildes", () => {
  expect(pointerToken("a/b~c/d~1")).toBe("a~1b~0c~1d~01");
});

describe("the patch of a status", () => {
  test("creates a missing status and tests the resource version", () => {
    expect(statusPatch(kind, { phase: "Pending" })).toEqual([
      VERSION,
      { op: "add", path: "/status", value: { phase: "Pending" } },
    ]);
  });

  test("patches only differences, and tests the old values", () => {
    const status = { same: [1], other: "kept", phase: "Pending", gone: 1 };
    const next = {
      same: [1],
      phase: "Running",
      "new/field": true,
      gone: undefined,
      never: undefined,
    };
    expect(statusPatch({ ...kind, status }, next)).toEqual([
      { op: "test", path: "/status/phase", value: "Pending" },
      { op: "add", path: "/status/phase", value: "Running" },
      { op: "add", path: "/status/new~1field", value: true },
      { op: "test", path: "/status/gone", value: 1 },
      { op: "remove", path: "/status/gone" },
    ]);
  });

  test("is empty if nothing changes", () => {
    expect(statusPatch({ ...kind, status: { phase: "Running" } }, { phase: "Running" })).toEqual(
      [],
    );
  });
});
