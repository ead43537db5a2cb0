// SPDX-License-Identifier: Apache-2.0
import type { VirtualMachine, VirtualMachineInstance, VmiStatus, VmStatus } from "@patchbay/api";
import { aVm, aVmi } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { startVerdict } from "./verdict.ts";

const MESSAGE = "spec.template.spec.domain.devices.tpm: is not supported yet";
const TOLD = {
  type: "Synchronized",
  status: "False",
  reason: "UnsupportedSpec",
  message: MESSAGE,
} as const;
const NOTHING = { vm: undefined, vmi: undefined };

function vm(status: VmStatus): VirtualMachine {
  return { ...aVm(), status: { observedGeneration: 1, ...status } };
}

function vmi(status: VmiStatus, uid = "new"): VirtualMachineInstance {
  const made = aVmi({ status });
  return { ...made, metadata: { ...made.metadata, uid } };
}

describe("somebody who waits for a start", () => {
  test.each([
    {
      name: "is told at once what the VM tells",
      vm: vm({ printableStatus: "ErrorUnsupportedSpec", conditions: [TOLD] }),
      vmi: undefined,
      want: { kind: "failing", reason: `UnsupportedSpec: ${MESSAGE}` },
    },
    {
      name: "is not told what was so before the request",
      vm: vm({
        printableStatus: "ErrorUnsupportedSpec",
        conditions: [TOLD],
        observedGeneration: 0,
      }),
      vmi: undefined,
      want: { kind: "waiting" },
    },
    {
      name: "is not told what a VM that is stopped tells",
      vm: vm({ printableStatus: "Stopped", conditions: [TOLD] }),
      vmi: undefined,
      want: { kind: "waiting" },
    },
    {
      name: "is told what the VMI tells",
      vm: vm({ printableStatus: "Starting" }),
      vmi: vmi({ phase: "Scheduled", conditions: [{ ...TOLD, reason: "GuestNotStarted" }] }),
      want: { kind: "failing", reason: `GuestNotStarted: ${MESSAGE}` },
    },
    {
      name: "goes on when the guest runs",
      vm: vm({ printableStatus: "Running" }),
      vmi: vmi({ phase: "Running" }),
      want: { kind: "done" },
    },
  ])("$name", ({ want, ...now }) => {
    expect(startVerdict(now, NOTHING)).toEqual(want);
  });

  test("does not take the guest of before for the new one", () => {
    const running = { vm: vm({}), vmi: vmi({ phase: "Running" }, "old") };
    expect(startVerdict(running, running)).toEqual({ kind: "waiting" });
  });
});
