// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { resolveBinding } from "../nics/bindings/resolve-binding.ts";
import { findEventType, findReasonOwner, REASONS } from "./table.ts";

describe("the event of a reason", () => {
  test.each([
    { name: "is Warning if a user must act", reason: "GuestRefused", want: "Warning" },
    { name: "is Normal for a temporary reason", reason: "DomainBusy", want: "Normal" },
    {
      name: "is unset for a guest that was just requested to unplug",
      reason: "WaitingForGuest",
      want: undefined,
    },
    { name: "is Warning for an unknown reason", reason: "Unheard", want: "Warning" },
    { name: "is Warning for a name of an object property", reason: "constructor", want: "Warning" },
  ])("$name", ({ reason, want }) => {
    expect(findEventType(reason)).toBe(want);
  });

  test("is Normal for reasons that end by themselves", () => {
    const normal = Object.keys(REASONS).filter((reason) => findEventType(reason) === "Normal");
    expect(normal.toSorted()).toEqual([
      "DomainBusy",
      "DomainMissing",
      "DomainNotRunning",
      "WaitingForMigration",
    ]);
  });
});

test.each([{ sriov: {} }, { passtBinding: {} }])("the rejection of %j has an entry", (part) => {
  const binding = resolveBinding({ name: "nic", ...part }, undefined, {});
  expect(binding).toMatchObject({ kind: "refused" });
  expect(Object.keys(REASONS)).toContain("reason" in binding && binding.reason);
});

test.each([
  { reason: "NetworkInvalid", want: "user" },
  { reason: "CniFailed", want: "administrator" },
  { reason: "Unheard", want: undefined },
  { reason: undefined, want: undefined },
])("the owner of reason $reason is $want", ({ reason, want }) => {
  expect(findReasonOwner(reason)).toBe(want);
});
