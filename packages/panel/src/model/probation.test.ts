// SPDX-License-Identifier: Apache-2.0
import type { VirtualMachineInstance } from "@patchbay/api";
import type { DoctorReport } from "@patchbay/core/doctor";
import { describe, expect, test } from "vitest";
import type { Change } from "./changes.ts";
import {
  findCheckableChange,
  describeFault,
  isInUse,
  NO_PLUG_CHECK,
  plugCheckFlags,
  findReasonToStay,
} from "./probation.ts";
import { toUnit } from "./unit.ts";

const unit = { key: "ns/a", namespace: "ns", name: "a", kind: "virtualmachines" } as const;
const plug: Change = { kind: "plug", unit, iface: "blue", network: "ns/blue" };
const pull: Change = { kind: "pull", unit, iface: "blue" };
const REPORT: DoctorReport = {
  vmi: "ns/a",
  interface: "blue",
  milliseconds: 1,
  isUnplugReason: false,
  hops: [
    { hop: "guest", state: "ok", why: "it answers" },
    { hop: "uplink", state: "dead", why: "it is down" },
  ],
};

describe("findCheckableChange", () => {
  test.each([
    { change: plug, kind: "live", want: plug },
    { change: plug, kind: "start", want: undefined },
    { change: plug, kind: "refused", want: undefined },
    { change: pull, kind: "live", want: undefined },
  ] as const)("$change.kind, $kind", ({ change, kind, want }) => {
    expect(findCheckableChange(change, { kind, text: "" })).toBe(want);
  });

  test("ignores a change without a verdict", () => {
    expect(findCheckableChange(plug, undefined)).toBeUndefined();
  });

  test.each([
    { phase: "Ready", want: true },
    { phase: "Attaching", want: false },
  ] as const)("isInUse of a $phase NIC: $want", ({ phase, want }) => {
    const vmi: VirtualMachineInstance = {
      apiVersion: "v1",
      kind: "VirtualMachineInstance",
      metadata: { namespace: "ns", name: "a" },
      spec: { domain: { devices: { interfaces: [{ name: "blue" }] } } },
      status: {
        phase: "Running",
        interfaces: [{ name: "blue", infoSource: "domain", hotplug: { type: "Plug", phase } }],
      },
    };
    expect(isInUse(toUnit("ns/a", { vmi }), "blue")).toBe(want);
    expect(isInUse(undefined, "blue")).toBe(false);
  });

  test("describeFault names the hop that loses frames", () => {
    expect(describeFault({ ...REPORT, firstDead: "uplink" })).toBe(
      "frames die at uplink: it is down",
    );
    expect(describeFault(REPORT)).toBeUndefined();
  });

  test.each([
    {
      name: "the user chose to keep the NIC",
      isUnplugReason: true,
      keeps: true,
      want: /as you chose/,
    },
    {
      name: "the fault is outside the pod",
      isUnplugReason: false,
      keeps: false,
      want: /not in the/,
    },
  ])("findReasonToStay: $name", ({ isUnplugReason, keeps, want }) => {
    expect(findReasonToStay({ ...REPORT, isUnplugReason }, keeps)).toMatch(want);
  });

  test("findReasonToStay: unplugs for a fault in the pod", () => {
    expect(findReasonToStay({ ...REPORT, isUnplugReason: true }, false)).toBeUndefined();
  });

  test("plugCheckFlags returns the flags of addinterface", () => {
    expect(plugCheckFlags(NO_PLUG_CHECK)).toEqual([]);
    expect(plugCheckFlags({ isOn: true, keepsFaulty: false })).toEqual(["--check"]);
    expect(plugCheckFlags({ isOn: true, keepsFaulty: true })).toEqual(["--check", "--keep"]);
  });
});
