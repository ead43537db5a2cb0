// SPDX-License-Identifier: Apache-2.0
import type { VirtualMachine, VirtualMachineInstance, VmiStatus, VmStatus } from "@patchbay/api";
import { aVm, aVmi } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { plugVerdict, settingsVerdict, startVerdict, unplugVerdict } from "./verdict.ts";

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

describe("somebody who waits for a NIC of a VM whose changes are staged", () => {
  const running = aVmi({ nics: [{ name: "blue" }], status: { phase: "Running" } });
  const IFACES = "spec.template.spec.domain.devices.interfaces";
  const when = "at the VM's next start, as the cluster's vmRolloutStrategy says";

  /** The VM has these NICs, and says of these fields that they wait. */
  function staged(nics: readonly string[], fields: string, observedGeneration = 1): VirtualMachine {
    const message = `changed fields take effect at the next start: ${fields}`;
    const conditions = [{ type: "RestartRequired", status: "True" as const, message }];
    const made = aVm({ nics: nics.map((name) => ({ name })) });
    return { ...made, status: { observedGeneration, conditions } };
  }

  test.each([
    {
      name: "a plug comes later",
      verdict: plugVerdict,
      iface: "red",
      vm: staged(["blue", "red"], `${IFACES}[1], spec.template.spec.networks[1]`),
      want: { kind: "later", note: `the interface is plugged ${when}` },
    },
    {
      name: "of a plug nothing is known yet",
      verdict: plugVerdict,
      iface: "red",
      vm: staged(["blue", "red"], `${IFACES}[1]`, 0),
      want: { kind: "waiting" },
    },
    {
      name: "another field that waits keeps no plug",
      verdict: plugVerdict,
      iface: "red",
      vm: staged(["blue", "red"], "spec.template.spec.domain.memory"),
      want: { kind: "waiting" },
    },
    {
      name: "an unplug comes later",
      verdict: unplugVerdict,
      iface: "blue",
      vm: staged([], `${IFACES}, spec.template.spec.networks`),
      want: { kind: "later", note: `the interface is unplugged ${when}` },
    },
    {
      name: "an unplug that is done is done",
      verdict: unplugVerdict,
      iface: "gone",
      vm: staged([], IFACES),
      want: { kind: "done" },
    },
    {
      name: "an unplug of what the VM still has goes on",
      verdict: unplugVerdict,
      iface: "blue",
      vm: staged(["blue"], IFACES),
      want: { kind: "waiting" },
    },
  ])("$name", ({ verdict, iface, vm: now, want }) => {
    const seen = { vm: now, vmi: running };
    expect(verdict(iface, seen, seen)).toEqual(want);
  });
});

describe("a caller that waits for a changed interface", () => {
  const attached = (networkName: string, podInterfaceName: string) =>
    ({ name: "red", networkName, podInterfaceName, state: "Attached" }) as const;
  const nic = (podInterfaceName: string, linkState: string) => ({
    name: "red",
    podInterfaceName,
    linkState,
    hotplug: { type: "Plug", phase: "Ready" } as const,
  });
  const [OLD, NEW] = [attached("ns/a", "pod1"), attached("ns/b", "pod2")];

  test.each([
    {
      name: "goes on waiting while the guest's NIC is on the old network",
      vmi: vmi({ phase: "Running", interfaces: [nic("pod1", "up")], attachments: [OLD, NEW] }),
      wanted: { network: "ns/b" },
      want: { kind: "waiting" },
    },
    {
      name: "is done when the NIC is on the new network",
      vmi: vmi({ phase: "Running", interfaces: [nic("pod2", "up")], attachments: [NEW, OLD] }),
      wanted: { network: "ns/b" },
      want: { kind: "done" },
    },
    {
      name: "goes on waiting while the swap before it is failing",
      vmi: vmi({
        phase: "Running",
        interfaces: [
          {
            ...nic("pod1", "up"),
            hotplug: { type: "Swap", phase: "PodSwapping", reason: "NetworkNotFound" },
          },
        ],
        attachments: [OLD],
      }),
      wanted: { network: "ns/a" },
      want: { kind: "waiting" },
    },
    {
      name: "goes on waiting while the link has the other state",
      vmi: vmi({ phase: "Running", interfaces: [nic("pod2", "up")], attachments: [NEW] }),
      wanted: { network: "ns/b", link: "down" },
      want: { kind: "waiting" },
    },
    {
      name: "is done when the link has the wanted state",
      vmi: vmi({ phase: "Running", interfaces: [nic("pod1", "down")], attachments: [OLD] }),
      wanted: { link: "down" },
      want: { kind: "done" },
    },
    {
      name: "learns that a VM that has stopped is changed at its next start",
      vmi: undefined,
      wanted: { link: "down" },
      want: {
        kind: "later",
        note: "the VM has stopped: the interface is changed at its next start",
      },
    },
  ] as const)("$name", ({ vmi: now, wanted, want }) => {
    const seen = { vm: vm({}), vmi: now };
    expect(settingsVerdict({ iface: "red", ...wanted }, seen)).toEqual(want);
  });

  test("learns that the cluster stages the change", () => {
    const interfaces = [{ name: "red" }];
    const networks = [{ name: "red", multus: { networkName: "b" } }];
    const staged = {
      ...vm({
        conditions: [
          {
            type: "RestartRequired",
            status: "True",
            reason: "NonLiveFieldsChanged",
            message:
              "changed fields take effect at the next start: spec.template.spec.networks[0].multus.networkName",
          },
        ],
      }),
      spec: { template: { spec: { domain: { devices: { interfaces } }, networks } } },
    };
    const seen = { vm: staged, vmi: vmi({ phase: "Running" }) };
    const verdict = settingsVerdict({ iface: "red", network: "ns/b" }, seen);
    expect(verdict).toMatchObject({
      kind: "later",
      note: expect.stringContaining("vmRolloutStrategy") as string,
    });
  });
});
