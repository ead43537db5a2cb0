// SPDX-License-Identifier: Apache-2.0
import type { IfaceStatus, VirtualMachineInstance, VmiStatus } from "@patchbay/api";
import { describe, expect, test } from "vitest";
import { findIfaceStage, isIfaceGone, StepRecorder, findVmiStage, type Step } from "./progress.ts";

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

describe("StepRecorder", () => {
  test("reports each step once with its time, and skips the state before the request", () => {
    const reported: Step[] = [];
    const first = plugging({ phase: "Pending" });
    const recorder = new StepRecorder(
      ({ vmi }) => findIfaceStage(vmi, "blue"),
      { vmi: first },
      (step) => reported.push(step),
    );
    recorder.record({ vmi: first, elapsedMs: 1 });
    recorder.record({ vmi: plugging({ phase: "Wiring" }), elapsedMs: 10.4 });
    recorder.record({ vmi: plugging({ phase: "Wiring" }), elapsedMs: 20 });
    const stuck = { phase: "Attaching", reason: "LauncherUnreachable", message: "no one" } as const;
    recorder.record({ vmi: plugging(stuck), elapsedMs: 30 });
    recorder.record({ vmi: undefined, elapsedMs: 40 });
    expect(reported).toEqual([
      { phase: "Wiring", elapsedMs: 10 },
      { ...stuck, elapsedMs: 30 },
    ]);
    expect(recorder.state).toBe("Attaching (LauncherUnreachable: no one)");
  });

  test("ignores other interfaces", () => {
    expect(findIfaceStage(plugging({}), "red")).toBeUndefined();
    expect(findIfaceStage(undefined, "red")).toBeUndefined();
  });
});

describe("isIfaceGone", () => {
  test.each([
    { name: "is true without a VMI", vmi: undefined, want: true },
    {
      name: "is true if neither status nor spec names the interface",
      vmi: vmiOf({ phase: "Running" }),
      want: true,
    },
    { name: "is false while the node reports it", vmi: plugging({}), want: false },
    {
      name: "is false while the pod has it",
      vmi: vmiOf({
        attachments: [{ name: "blue", podInterfaceName: "pod1", state: "Removing" }],
      }),
      want: false,
    },
    { name: "is false while the spec has it", vmi: vmiOf({}, ["blue"]), want: false },
  ])("$name", ({ vmi, want }) => {
    expect(isIfaceGone(vmi, "blue")).toBe(want);
  });
});

describe("findVmiStage", () => {
  test.each([
    { name: "none", vmi: undefined, want: undefined },
    { name: "new", vmi: vmiOf({}), want: "Pending" },
    { name: "running", vmi: vmiOf({ phase: "Running" }), want: "Running" },
  ])("$name", ({ vmi, want }) => {
    expect(findVmiStage(vmi)?.phase).toBe(want);
  });

  test("reports Stopping for a VMI that is being deleted", () => {
    const vmi = vmiOf({ phase: "Running" });
    const deletionTimestamp = "2026-01-01T00:00:00Z";
    expect(findVmiStage({ ...vmi, metadata: { ...vmi.metadata, deletionTimestamp } })?.phase).toBe(
      "Stopping",
    );
  });
});
