// SPDX-License-Identifier: Apache-2.0
import type { IfaceStatus, VirtualMachineInstance, VmiStatus } from "@patchbay/api";
import { describe, expect, test } from "vitest";
import { ifaceStage, isIfaceGone, StepRecorder, vmiStage, type Step } from "./steps.ts";

function vmiOf(status: VmiStatus, ifaces: readonly string[] = []): VirtualMachineInstance {
  return {
    apiVersion: "kubevirt.io/v1",
    kind: "VirtualMachineInstance",
    metadata: { namespace: "ns", name: "one" },
    spec: { domain: { devices: { interfaces: ifaces.map((name) => ({ name })) } } },
    status,
  };
}

function plugging(hotplug: Partial<NonNullable<IfaceStatus["hotplug"]>>): VirtualMachineInstance {
  const full = { type: "Plug", phase: "Pending", ...hotplug } as const;
  return vmiOf({ interfaces: [{ name: "blue", hotplug: full }] });
}

describe("the steps of an interface", () => {
  test("are told once each, with their times, and not the one before the request", () => {
    const told: Step[] = [];
    const first = plugging({ phase: "Pending" });
    const recorder = new StepRecorder(
      ({ vmi }) => ifaceStage(vmi, "blue"),
      { vmi: first },
      (step) => told.push(step),
    );
    recorder.record({ vmi: first, elapsedMs: 1 });
    recorder.record({ vmi: plugging({ phase: "Wiring" }), elapsedMs: 10.4 });
    recorder.record({ vmi: plugging({ phase: "Wiring" }), elapsedMs: 20 });
    const stuck = { phase: "Attaching", reason: "LauncherUnreachable", message: "no one" } as const;
    recorder.record({ vmi: plugging(stuck), elapsedMs: 30 });
    recorder.record({ vmi: undefined, elapsedMs: 40 });
    expect(told).toEqual([
      { phase: "Wiring", elapsedMs: 10 },
      { ...stuck, elapsedMs: 30 },
    ]);
    expect(recorder.state).toBe("Attaching (LauncherUnreachable: no one)");
  });

  test("there are none of another interface", () => {
    expect(ifaceStage(plugging({}), "red")).toBeUndefined();
    expect(ifaceStage(undefined, "red")).toBeUndefined();
  });
});

describe("an interface is gone", () => {
  test.each([
    { name: "when there is no VMI", vmi: undefined, want: true },
    { name: "when nothing names it", vmi: vmiOf({ phase: "Running" }), want: true },
    { name: "not while the node reports it", vmi: plugging({}), want: false },
    {
      name: "not while the pod has it",
      vmi: vmiOf({
        attachments: [{ name: "blue", podInterfaceName: "pod1", state: "Removing" }],
      }),
      want: false,
    },
    { name: "not while the spec has it", vmi: vmiOf({}, ["blue"]), want: false },
  ])("$name", ({ vmi, want }) => {
    expect(isIfaceGone(vmi, "blue")).toBe(want);
  });
});

describe("the stage of a VMI", () => {
  test.each([
    { name: "none", vmi: undefined, want: undefined },
    { name: "new", vmi: vmiOf({}), want: "Pending" },
    { name: "running", vmi: vmiOf({ phase: "Running" }), want: "Running" },
  ])("$name", ({ vmi, want }) => {
    expect(vmiStage(vmi)?.phase).toBe(want);
  });

  test("is Stopping once it is being deleted", () => {
    const vmi = vmiOf({ phase: "Running" });
    const deletionTimestamp = "2026-01-01T00:00:00Z";
    expect(vmiStage({ ...vmi, metadata: { ...vmi.metadata, deletionTimestamp } })?.phase).toBe(
      "Stopping",
    );
  });
});
