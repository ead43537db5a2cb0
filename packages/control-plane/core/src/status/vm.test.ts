// SPDX-License-Identifier: Apache-2.0
// What a VM says of itself: the word that people see first, and its conditions.
import type { RunStrategy, VirtualMachine, VmiStatus, VmStatus } from "@patchbay/api";
import { aVm, aVmi } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import type { VmStatusFacts } from "./sync-error.ts";
import { buildVmStatus } from "./vm.ts";
import type { StepFailure } from "./step-failure.ts";

const NOW = "2026-01-01T01:00:00.000Z";
const EARLIER = "2026-01-01T00:00:00.000Z";

function vmOf(runStrategy: RunStrategy, status?: VmStatus): VirtualMachine {
  const vm = aVm();
  return { ...vm, spec: { ...vm.spec, runStrategy }, ...(status === undefined ? {} : { status }) };
}

function vmiOf(status: VmiStatus, deletionTimestamp?: string) {
  const vmi = aVmi({ status });
  const metadata = {
    ...vmi.metadata,
    ...(deletionTimestamp === undefined ? {} : { deletionTimestamp }),
  };
  return { ...vmi, metadata };
}

function deletingVm(runStrategy: RunStrategy): VirtualMachine {
  const vm = vmOf(runStrategy);
  return { ...vm, metadata: { ...vm.metadata, deletionTimestamp: NOW } };
}

function blocked(type: string, reason: string) {
  return vmiOf({
    phase: "Scheduling",
    conditions: [{ type, status: "False", reason, message: "why" }],
  });
}

function statusOf(situation: Pick<VmStatusFacts, "vm" | "vmi" | "failures">) {
  return buildVmStatus(
    {
      ...situation,
      startProblems: [],
      hasNameConflict: false,
      bindings: {},
      isStaged: false,
      waitsForBinding: false,
    },
    NOW,
  );
}

const FAILED_ONCE = {
  consecutiveFailCount: 1,
  lastFailedVMIUID: "earlier",
  retryAfterTimestamp: NOW,
};
const REFUSED: StepFailure = { step: "createVmi", message: "no" };

describe("printableStatus", () => {
  const PAUSED = { type: "Paused", status: "True" } as const;

  test.each([
    { want: "Stopped", vm: vmOf("Halted"), vmi: undefined },
    { want: "Stopped", vm: vmOf("Manual"), vmi: undefined },
    {
      want: "Starting",
      vm: vmOf("Manual", { stateChangeRequests: [{ action: "Start" }] }),
      vmi: undefined,
    },
    { want: "Starting", vm: vmOf("Always"), vmi: undefined },
    { want: "Starting", vm: vmOf("RerunOnFailure"), vmi: undefined },
    {
      want: "Stopped",
      vm: vmOf("RerunOnFailure", { runStrategy: "RerunOnFailure" }),
      vmi: undefined,
    },
    { want: "CrashLoopBackOff", vm: vmOf("Always", { startFailure: FAILED_ONCE }), vmi: undefined },
    { want: "CrashLoopBackOff", vm: vmOf("Always"), vmi: vmiOf({ phase: "Failed" }) },
    { want: "Stopped", vm: vmOf("Manual"), vmi: vmiOf({ phase: "Failed" }) },
    { want: "Stopped", vm: vmOf("Once"), vmi: vmiOf({ phase: "Succeeded" }) },
    { want: "Starting", vm: vmOf("Always"), vmi: vmiOf({ phase: "Scheduled" }) },
    { want: "Running", vm: vmOf("Always"), vmi: vmiOf({ phase: "Running" }) },
    {
      want: "Migrating",
      vm: vmOf("Always"),
      vmi: vmiOf({ phase: "Running", migrationState: { migrationUid: "m1" } }),
    },
    {
      want: "Running",
      vm: vmOf("Always"),
      vmi: vmiOf({ phase: "Running", migrationState: { migrationUid: "m1", completed: true } }),
    },
    { want: "Paused", vm: vmOf("Always"), vmi: vmiOf({ phase: "Running", conditions: [PAUSED] }) },
    {
      want: "Stopping",
      vm: vmOf("Halted"),
      vmi: vmiOf({ phase: "Running", conditions: [PAUSED] }, NOW),
    },
    { want: "Unknown", vm: vmOf("Always"), vmi: vmiOf({ phase: "Unknown" }) },
    { want: "Stopping", vm: vmOf("Halted"), vmi: vmiOf({ phase: "Running" }, NOW) },
    { want: "ErrorCreateRefused", vm: vmOf("Always"), vmi: undefined, failures: [REFUSED] },
    {
      want: "ErrorCreateRefused",
      vm: vmOf("Always"),
      vmi: blocked("Synchronized", "FailedCreate"),
    },
    {
      want: "ErrorUnsupportedSpec",
      vm: vmOf("Always"),
      vmi: blocked("Synchronized", "UnsupportedSpec"),
    },
    { want: "ErrImagePull", vm: vmOf("Always"), vmi: blocked("Synchronized", "ErrImagePull") },
    {
      want: "ImagePullBackOff",
      vm: vmOf("Always"),
      vmi: blocked("Synchronized", "ImagePullBackOff"),
    },
    {
      want: "CreateContainerConfigError",
      vm: vmOf("Always"),
      vmi: blocked("Synchronized", "CreateContainerConfigError"),
    },
    {
      want: "DataVolumeError",
      vm: vmOf("Always"),
      vmi: blocked("Synchronized", "DataVolumeError"),
    },
    {
      want: "Provisioning",
      vm: vmOf("Always"),
      vmi: blocked("Synchronized", "DataVolumeNotReady"),
    },
    {
      want: "ErrorPvcNotFound",
      vm: vmOf("Always"),
      vmi: blocked("Synchronized", "FailedPvcNotFound"),
    },
    {
      want: "ErrorDataVolumeNotFound",
      vm: vmOf("Always"),
      vmi: blocked("Synchronized", "FailedDataVolumeNotFound"),
    },
    { want: "Terminating", vm: deletingVm("Always"), vmi: vmiOf({ phase: "Running" }, NOW) },
    { want: "Terminating", vm: deletingVm("Halted"), vmi: undefined },
    {
      want: "ErrorUnschedulable",
      vm: vmOf("Always"),
      vmi: blocked("Synchronized", "Unschedulable"),
    },
  ])("$want", ({ want, vm, vmi, failures = [] }) => {
    expect(statusOf({ vm, vmi, failures }).printableStatus).toBe(want);
  });
});

describe("a claim that is not bound", () => {
  test.each([
    { want: "WaitingForVolumeBinding", vmi: vmiOf({ phase: "Scheduling" }) },
    { want: "WaitingForVolumeBinding", vmi: vmiOf({}) },
    { want: "ErrorUnschedulable", vmi: blocked("Synchronized", "Unschedulable") },
    { want: "Running", vmi: vmiOf({ phase: "Running" }) },
    { want: "Stopping", vmi: vmiOf({ phase: "Scheduling" }, NOW) },
  ])("is reported while the guest starts: $want", ({ want, vmi }) => {
    const rest = { startProblems: [], hasNameConflict: false, bindings: {}, isStaged: false };
    const situation = { ...rest, vm: vmOf("Always"), vmi, waitsForBinding: true, failures: [] };
    expect(buildVmStatus(situation, NOW).printableStatus).toBe(want);
  });
});

describe("conditions", () => {
  test("Ready is the VMI's, with its time; without a VMI it is False", () => {
    const ready = { type: "Ready", status: "True", lastTransitionTime: EARLIER } as const;
    const vmi = vmiOf({ phase: "Running", conditions: [ready] });
    const running = statusOf({ vm: vmOf("Always"), vmi, failures: [] });
    expect(running).toMatchObject({ ready: true, conditions: [{ type: "Ready", status: "True" }] });
    const stopped = statusOf({
      vm: vmOf("Halted", { conditions: [ready] }),
      vmi: undefined,
      failures: [],
    });
    expect(stopped).toMatchObject({
      ready: false,
      conditions: [
        { type: "Ready", status: "False", reason: "VMINotExists", lastTransitionTime: NOW },
      ],
    });
  });

  test("retains a condition's transition time while its status is unchanged", () => {
    const reported = { type: "Ready", status: "False", lastTransitionTime: EARLIER } as const;
    const vm = vmOf("Halted", { conditions: [reported] });
    const { conditions } = statusOf({ vm, vmi: undefined, failures: [] });
    expect(conditions).toMatchObject([{ lastTransitionTime: EARLIER }]);
  });

  test("the VMI's conditions are copied to the VM, and removed with them", () => {
    const reported = { status: "False", reason: "Why", message: "so" } as const;
    const vmi = vmiOf({
      phase: "Scheduling",
      conditions: [
        { type: "Synchronized", ...reported },
        { type: "AgentConnected", ...reported },
      ],
    });
    const { conditions = [] } = statusOf({ vm: vmOf("Always"), vmi, failures: [] });
    expect(conditions).toContainEqual({
      type: "Synchronized",
      ...reported,
      lastTransitionTime: NOW,
    });
    expect(conditions).toContainEqual({ type: "AgentConnected", ...reported });
    const vm = vmOf("Always", { conditions });
    const after = statusOf({ vm, vmi: vmiOf({ phase: "Running" }), failures: [] });
    expect(after.conditions?.map(({ type }) => type)).toEqual(["Ready"]);
  });

  test("reports the complete error", () => {
    const failures: readonly StepFailure[] = [
      REFUSED,
      { step: "patchTemplateNics", message: "nor this" },
    ];
    const { conditions } = statusOf({ vm: vmOf("Always"), vmi: undefined, failures });
    expect(conditions).toContainEqual({
      type: "Synchronized",
      status: "False",
      reason: "FailedCreate",
      message: "no; nor this",
      lastTransitionTime: NOW,
    });
  });
});
