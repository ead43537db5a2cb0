// SPDX-License-Identifier: Apache-2.0
import { createFakeClock, type FakeClock } from "@patchbay/ports/testing";
import { beforeEach, describe, expect, test } from "vitest";
import { createGuestNames, type GuestNames } from "./guest-names.ts";

const UID = "vmi-uid";
const ETH0 = new Map([["02:00:00:00:00:01", "eth0"]]);

let clock: FakeClock;
let names: GuestNames;

beforeEach(() => {
  clock = createFakeClock();
  names = createGuestNames(clock);
});

describe("names", () => {
  test("are none before the guest was asked", () => {
    expect(names.namesOf(UID)).toEqual(new Map());
  });

  test.each([
    { name: "the same", told: new Map(ETH0), isNew: false },
    { name: "no answer", told: undefined, isNew: false },
    { name: "another name", told: new Map([["02:00:00:00:00:01", "wan0"]]), isNew: true },
    { name: "another MAC", told: new Map([["02:00:00:00:00:02", "eth0"]]), isNew: true },
    { name: "one more", told: new Map([...ETH0, ["02:00:00:00:00:02", "eth1"]]), isNew: true },
    { name: "none at all", told: new Map<string, string>(), isNew: true },
  ])("that were told before $name: new $isNew", ({ told, isNew }) => {
    names.note(UID, ETH0);
    expect(names.note(UID, told)).toBe(isNew);
    expect(names.namesOf(UID)).toEqual(told ?? ETH0);
  });

  test("that are first told are new, unless there are none", () => {
    expect(names.note(UID, ETH0)).toBe(true);
    expect(names.note("other", new Map())).toBe(false);
  });

  test("are gone with their VMI", () => {
    names.note(UID, ETH0);
    names.note("other", ETH0);
    names.forget(UID);
    expect(names.namesOf(UID)).toEqual(new Map());
    expect(names.namesOf("other")).toEqual(ETH0);
  });
});

describe("the next question", () => {
  test("is never, where nobody listens", () => {
    expect(names.askInMs(UID, "")).toBeUndefined();
  });

  test("comes after a while, and later when the guest was asked; a change begins anew", async () => {
    const first = names.askInMs(UID, "a");
    expect(first).toBeGreaterThan(0);
    await clock.advance(first ?? 0);
    expect(names.askInMs(UID, "a")).toBe(0);
    names.note(UID, undefined);
    expect(names.askInMs(UID, "a")).toBeGreaterThan(0);
    expect(names.askInMs(UID, "a b")).toBe(first);
  });

  test("comes as at first when the VMI was forgotten", async () => {
    const first = names.askInMs(UID, "a");
    await clock.advance(first ?? 0);
    names.forget(UID);
    expect(names.askInMs(UID, "a")).toBe(first);
  });
});
