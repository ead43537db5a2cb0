// SPDX-License-Identifier: Apache-2.0
import { aVmi } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { AppError } from "@patchbay/base";
import {
  guestBlockedField,
  guestBlockedReason,
  blockedReasonOfFailure,
  blockedReasonOfWait,
  reportedUnplugRequests,
} from "./blocked-reason.ts";

describe("an unplug waits", () => {
  const wait = { kind: "wait", iface: "one", reason: "GuestRefused" } as const;

  test.each([
    { count: 1, want: "WaitingForGuest", says: /was requested to release/ },
    { count: 2, want: "WaitingForGuest", says: /was requested to release/ },
    { count: 3, want: "GuestRefused", says: /not released.*3 requests since 2026.*reset it/ },
    {
      count: 1,
      isRefused: true,
      want: "GuestRefused",
      says: /refused to release.*1 request since 2026/,
    },
    { count: 9, isPaused: true, want: "WaitingForGuest", says: /is paused.*resume it/ },
  ])("for a guest: %j", ({ count, isRefused = false, isPaused = false, want, says: message }) => {
    const facts = { pciAddresses: [], devices: [], controllers: [], nics: [] };
    // Nothing else of the domain is looked at.
    const domain = { running: true, isPaused, crashed: false, facts } as never;
    const hotplug = { type: "Unplug", phase: "Detaching", since: "2026-01-01T00:00:00Z" } as const;
    const vmi = aVmi({ status: { interfaces: [{ name: "one", hotplug }] } });
    const requested = { one: { count, agoMs: 1, isRefused } };
    const blockedReason = blockedReasonOfWait(wait, {
      vmi,
      domain,
      unplugRequests: requested,
      ifaces: [],
    });
    expect(blockedReason).toMatchObject({ reason: want, attempts: count });
    expect(blockedReason.message).toMatch(message);
  });
});

describe("unplug requests of a previous process", () => {
  const reported = { phase: "Detaching", attempts: 4 };

  test.each([
    { name: "a pending request", hotplug: { ...reported, reason: "WaitingForGuest" }, want: 4 },
    { name: "a guest's refusal", hotplug: { ...reported, reason: "GuestRefused" }, want: 4 },
    {
      name: "a recreated tap",
      hotplug: { phase: "Attaching", attempts: 2, reason: "TapReplaced" },
      want: 2,
    },
    {
      name: "a recreated tap in a different phase",
      hotplug: { ...reported, reason: "TapReplaced" },
      want: 0,
    },
    {
      name: "a pending request without a count",
      hotplug: { phase: "Detaching", reason: "WaitingForGuest" },
      want: 0,
    },
    { name: "no request", hotplug: { ...reported, reason: "DomainBusy" }, want: 0 },
    {
      name: "an older unplug",
      hotplug: { ...reported, phase: "Ready", reason: "GuestRefused" },
      want: 0,
    },
  ])("are counted for $name: $want", ({ hotplug, want }) => {
    // Literals of the row are members of the unions.
    expect(reportedUnplugRequests({ name: "one", hotplug } as never)).toBe(want);
  });
});

test("are 0 for an iface without a report", () => {
  expect(reportedUnplugRequests(undefined)).toBe(0);
  expect(reportedUnplugRequests({ name: "one" })).toBe(0);
});

describe("a plug waits", () => {
  const input = {
    vmi: aVmi({ nics: [{ name: "one" }], status: { pciePorts: { total: 4, free: 0 } } }),
    domain: undefined,
    ifaces: [],
    unplugRequests: { one: { count: 3, agoMs: 1, isRefused: false } },
  };
  const iface = { name: "one", bridge: {}, model: "pcnet", pciAddress: "0000:05:00.0" };
  const requesting = {
    ...input,
    vmi: { ...input.vmi, spec: { domain: { devices: { interfaces: [iface] } } } },
  };
  test.each([
    {
      reason: "NoFreePciePort",
      facts: input,
      says: "0 of 4 PCIe ports of the VM are free; unplug an interface",
    },
    {
      reason: "PciAddressInUse",
      facts: requesting,
      says: "the PCI address 0000:05:00.0 is in use",
    },
    { reason: "PciAddressInUse", facts: input, says: "the PCI address  is in use" },
    { reason: "ModelNeedsIoPorts", facts: requesting, says: "model pcnet needs I/O ports" },
    { reason: "ModelNeedsIoPorts", facts: input, says: "model  needs I/O ports" },
  ] as const)("for $reason: $says", ({ reason, facts, says: message }) => {
    const blockedReason = blockedReasonOfWait({ kind: "wait", iface: "one", reason }, facts);
    expect(blockedReason).toMatchObject({ reason, attempts: 0 });
    expect(blockedReason.message).toContain(message);
  });

  test("counts the unplug requests to a guest whose tap was recreated", () => {
    const wait = { kind: "wait", iface: "one", reason: "TapReplaced" } as const;
    expect(blockedReasonOfWait(wait, input)).toMatchObject({ reason: "TapReplaced", attempts: 3 });
    const none = blockedReasonOfWait(wait, { ...input, unplugRequests: {} });
    expect(none).toMatchObject({ reason: "TapReplaced", attempts: 0 });
  });

  test("for a guest whose QEMU would abort without its tap", () => {
    const wait = { kind: "wait", iface: "one", reason: "TapLost" } as const;
    expect(blockedReasonOfWait(wait, input)).toMatchObject({ reason: "TapLost", attempts: 0 });
  });

  test("for a guest that probably runs", () => {
    const wait = { kind: "wait", iface: "one", reason: "GuestRefused" } as const;
    const blockedReason = blockedReasonOfWait(wait, input);
    expect(blockedReason).toMatchObject({ reason: "GuestRefused", attempts: 3 });
    expect(blockedReason.message).not.toContain("since");
    const none = blockedReasonOfWait(wait, { ...input, unplugRequests: {} });
    expect(none).toMatchObject({ reason: "WaitingForGuest", attempts: 0 });
  });
});

describe("the blocked reason of a VMI", () => {
  const EARLIER = "2026-01-01T00:00:00.000Z";
  const NOW = "2026-01-01T01:00:00.000Z";
  const before = { reason: "GuestNotStarted", message: "no", attempts: 4, since: EARLIER };
  const vmi = aVmi({ status: { blockedReason: before } });

  test.each([
    {
      name: "is counted on",
      error: new Error("no kernel"),
      of: vmi,
      reason: "GuestNotStarted",
      attempts: 5,
    },
    {
      name: "begins",
      error: new Error("no kernel"),
      of: aVmi(),
      reason: "GuestNotStarted",
      attempts: 1,
    },
    {
      name: "restarts its count for a different reason from the error",
      error: new AppError("LIBVIRT_TIMED_OUT", {}),
      of: vmi,
      reason: "LibvirtTimedOut",
      attempts: 1,
    },
  ])("$name", ({ error, of, reason, attempts }) => {
    const blockedReason = guestBlockedReason(of, "GuestNotStarted", error);
    expect(blockedReason).toMatchObject({ reason, attempts });
    expect(blockedReason.message).toContain(error.message);
  });

  test("retains the time of the first occurrence of its reason", () => {
    const now = { reason: "GuestNotStarted", message: "still", attempts: 5 };
    expect(guestBlockedField(vmi, undefined, NOW)).toEqual({});
    expect(guestBlockedField(vmi, now, NOW)).toEqual({ blockedReason: { ...now, since: EARLIER } });
    expect(guestBlockedField(aVmi(), now, NOW)).toEqual({ blockedReason: { ...now, since: NOW } });
    const other = { ...now, reason: "LibvirtTimedOut" };
    expect(guestBlockedField(vmi, other, NOW)).toEqual({ blockedReason: { ...other, since: NOW } });
  });
});

describe("the number of attempts", () => {
  const reported = { name: "one", hotplug: { type: "Unplug", phase: "Detaching", attempts: 4 } };

  test.each([
    { name: "continues in the same phase", step: "detachDevice", want: 5 },
    { name: "restarts in the next phase", step: "unwireTap", want: 1 },
    { name: "restarts in the previous phase", step: "attachDevice", want: 1 },
  ] as const)("$name", ({ step, want }) => {
    const error = new AppError("LIBVIRT_REFUSED", {});
    // Literals of the row are members of the unions.
    expect(blockedReasonOfFailure(step, error, reported as never).attempts).toBe(want);
  });
});
