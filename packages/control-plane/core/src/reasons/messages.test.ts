// SPDX-License-Identifier: Apache-2.0
// What people are told of a reason, and which event tells of it.
import { aVmi } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { findAdvice, findEventType } from "./table.ts";
import { hasRefusedUnplug, noFreePortMessage } from "./messages.ts";

describe("advice for a VM without free ports", () => {
  const vmi = aVmi({ status: { pciePorts: { total: 4, free: 1 } } });
  const pc = { ...vmi, spec: { ...vmi.spec, domain: { machine: { type: "pc" } } } };
  const annotations = { "kubevirt.io/placePCIDevicesOnRootComplex": "true" };
  const onRoot = { ...vmi, metadata: { ...vmi.metadata, annotations } };

  test.each([
    {
      name: "q35",
      of: vmi,
      says: "1 of 4 PCIe ports of the VM are free; unplug an interface, or restart the VM with more spec.domain.devices.pcieRootPorts",
    },
    {
      name: "pc",
      of: pc,
      says: "the bus of machine type pc has no more slots",
    },
    {
      name: "devices on the root complex",
      of: onRoot,
      says: "restart the VM without the annotation",
    },
    {
      name: "a VM that has not reported anything",
      of: aVmi(),
      says: "0 of 0 PCIe ports of the VM are free",
    },
  ])("$name", ({ of, says: message }) => {
    expect(noFreePortMessage(of).message).toContain(message);
  });
});

test.each([
  { reason: "CniFailed", event: "Warning" },
  { reason: "DomainBusy", event: "Normal" },
  { reason: "WaitingForGuest", event: undefined },
  { reason: "AReasonOfTomorrow", event: "Warning" },
  { reason: "constructor", event: "Warning" },
])("$reason has event type $event", ({ reason, event }) => {
  expect(findEventType(reason)).toBe(event);
});

test("finds advice only for reasons that have some", () => {
  expect(findAdvice("PciAddressInUse")).toBe("choose another pciAddress, or none");
  expect(findAdvice("AttachFailed")).toBeUndefined();
});

test.each([
  { name: "sent one request", count: 1, isRefused: false, want: false },
  {
    name: "sent two requests, of which the first may be lost,",
    count: 2,
    isRefused: false,
    want: false,
  },
  { name: "sent three requests", count: 3, isRefused: false, want: true },
  { name: "sent one request, which failed,", count: 1, isRefused: true, want: true },
])("a guest that was $name has refused the unplug: $want", ({ count, isRefused, want }) => {
  expect(hasRefusedUnplug({ count, isRefused })).toBe(want);
});
