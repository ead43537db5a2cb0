// SPDX-License-Identifier: Apache-2.0
import type { IfaceStatus } from "@patchbay/api";
import { describe, expect, test } from "vitest";
import { isTransientChange } from "./transient.ts";

type Hotplug = NonNullable<IfaceStatus["hotplug"]>;

function at(
  phase: Hotplug["phase"],
  change: Partial<Hotplug> = {},
  fields: Partial<IfaceStatus> = {},
): IfaceStatus {
  const type = phase === "Detaching" ? "Unplug" : "Plug";
  return { name: "a", mac: "m", ...fields, hotplug: { type, phase, since: "now", ...change } };
}

const READY = at("Ready");
const ASKED = { reason: "WaitingForGuest", attempts: 1 };

describe("news of an iface", () => {
  test.each<{ name: string; before?: IfaceStatus; after?: IfaceStatus; want: boolean }>([
    { name: "that waits for its pod", after: at("Pending"), want: true },
    { name: "that waits on", before: at("Pending"), after: at("PodAttaching"), want: true },
    {
      name: "that waits, and why",
      after: at("Pending", { reason: "NetworkNotFound" }),
      want: false,
    },
    { name: "that worked and waits now", before: READY, after: at("Pending"), want: false },
    { name: "that works", before: at("Pending"), after: READY, want: false },
    { name: "that works at once", after: READY, want: false },
    { name: "whose guest is asked", before: READY, after: at("Detaching", ASKED), want: true },
    { name: "that is to be asked for", before: READY, after: at("Detaching"), want: true },
    {
      name: "whose guest is asked again",
      before: READY,
      after: at("Detaching", { ...ASKED, attempts: 2 }),
      want: false,
    },
    {
      name: "whose guest refuses",
      before: READY,
      after: at("Detaching", { reason: "GuestRefused", attempts: 1 }),
      want: false,
    },
    {
      name: "whose guest is asked, and that is another now",
      before: READY,
      after: at("Detaching", ASKED, { mac: "other" }),
      want: false,
    },
    {
      name: "whose guest could not be asked before",
      before: at("Detaching", { reason: "DomainBusy" }),
      after: at("Detaching", ASKED),
      want: false,
    },
    { name: "that is gone", before: READY, want: false },
    { name: "that is as it was", before: READY, after: READY, want: true },
  ])("$name", ({ before, after, want }) => {
    const others = [{ name: "b" }, { mac: "guest's own" }];
    const list = (status: IfaceStatus | undefined): IfaceStatus[] => [
      ...others,
      ...(status === undefined ? [] : [status]),
    ];
    expect(isTransientChange(list(before), list(after))).toBe(want);
  });
});
