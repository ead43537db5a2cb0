// SPDX-License-Identifier: Apache-2.0
import type { VirtualMachine, VirtualMachineInstance, VmiStatus, VmStatus } from "@patchbay/api";
import { aVm, aVmi } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { judgePlug, judgeSettings, judgeStart, judgeUnplug } from "./progress.ts";

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

describe("judgeStart", () => {
  test.each([
    {
      name: "fails with the VM's condition",
      vm: vm({ printableStatus: "ErrorUnsupportedSpec", conditions: [TOLD] }),
      vmi: undefined,
      want: { kind: "failing", reason: `UnsupportedSpec: ${MESSAGE}` },
    },
    {
      name: "ignores a status older than the request",
      vm: vm({
        printableStatus: "ErrorUnsupportedSpec",
        conditions: [TOLD],
        observedGeneration: 0,
      }),
      vmi: undefined,
      want: { kind: "waiting" },
    },
    {
      name: "ignores the condition of a stopped VM",
      vm: vm({ printableStatus: "Stopped", conditions: [TOLD] }),
      vmi: undefined,
      want: { kind: "waiting" },
    },
    {
      name: "fails with the VMI's condition",
      vm: vm({ printableStatus: "Starting" }),
      vmi: vmi({ phase: "Scheduled", conditions: [{ ...TOLD, reason: "GuestNotStarted" }] }),
      want: { kind: "failing", reason: `GuestNotStarted: ${MESSAGE}` },
    },
    {
      name: "is done when the guest runs",
      vm: vm({ printableStatus: "Running" }),
      vmi: vmi({ phase: "Running" }),
      want: { kind: "done" },
    },
  ])("$name", ({ want, ...now }) => {
    expect(judgeStart(now, NOTHING)).toEqual(want);
  });

  test("does not mistake the previous guest for the new one", () => {
    const running = { vm: vm({}), vmi: vmi({ phase: "Running" }, "old") };
    expect(judgeStart(running, running)).toEqual({ kind: "waiting" });
  });
});

describe("NIC verdicts with rollout strategy Stage", () => {
  const running = aVmi({ nics: [{ name: "blue" }], status: { phase: "Running" } });
  const IFACES = "spec.template.spec.domain.devices.interfaces";
  const when = "at the VM's next start, because of the cluster's vmRolloutStrategy";

  /** A VM with these NICs, whose RestartRequired condition lists these fields. */
  function staged(nics: readonly string[], fields: string, observedGeneration = 1): VirtualMachine {
    const message = `changed fields take effect at the next start: ${fields}`;
    const conditions = [{ type: "RestartRequired", status: "True" as const, message }];
    const made = aVm({ nics: nics.map((name) => ({ name })) });
    return { ...made, status: { observedGeneration, conditions } };
  }

  test.each([
    {
      name: "defers a plug",
      verdict: judgePlug,
      iface: "red",
      vm: staged(["blue", "red"], `${IFACES}[1], spec.template.spec.networks[1]`),
      want: { kind: "later", note: `the interface is plugged ${when}` },
    },
    {
      name: "waits for a plug that is not reported yet",
      verdict: judgePlug,
      iface: "red",
      vm: staged(["blue", "red"], `${IFACES}[1]`, 0),
      want: { kind: "waiting" },
    },
    {
      name: "ignores other staged fields",
      verdict: judgePlug,
      iface: "red",
      vm: staged(["blue", "red"], "spec.template.spec.domain.memory"),
      want: { kind: "waiting" },
    },
    {
      name: "defers an unplug",
      verdict: judgeUnplug,
      iface: "blue",
      vm: staged([], `${IFACES}, spec.template.spec.networks`),
      want: { kind: "later", note: `the interface is unplugged ${when}` },
    },
    {
      name: "is done after an unplug",
      verdict: judgeUnplug,
      iface: "gone",
      vm: staged([], IFACES),
      want: { kind: "done" },
    },
    {
      name: "keeps waiting for an unplug that the VM does not show yet",
      verdict: judgeUnplug,
      iface: "blue",
      vm: staged(["blue"], IFACES),
      want: { kind: "waiting" },
    },
  ])("$name", ({ verdict, iface, vm: now, want }) => {
    const observed = { vm: now, vmi: running };
    expect(verdict(iface, observed, observed)).toEqual(want);
  });
});

describe("judgeSettings", () => {
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
      name: "keeps waiting while the guest's NIC is on the old network",
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
      name: "keeps waiting while an earlier swap is failing",
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
      name: "keeps waiting while the link has the old state",
      vmi: vmi({ phase: "Running", interfaces: [nic("pod2", "up")], attachments: [NEW] }),
      wanted: { network: "ns/b", link: "down" },
      want: { kind: "waiting" },
    },
    {
      name: "is done when the link has the requested state",
      vmi: vmi({ phase: "Running", interfaces: [nic("pod1", "down")], attachments: [OLD] }),
      wanted: { link: "down" },
      want: { kind: "done" },
    },
    {
      name: "reports that a stopped VM changes at its next start",
      vmi: undefined,
      wanted: { link: "down" },
      want: {
        kind: "later",
        note: "the VM has stopped: the interface is changed at its next start",
      },
    },
  ] as const)("$name", ({ vmi: now, wanted, want }) => {
    const observed = { vm: vm({}), vmi: now };
    expect(judgeSettings({ iface: "red", ...wanted }, observed)).toEqual(want);
  });

  test("reports that the cluster stages the change", () => {
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
    const observed = { vm: staged, vmi: vmi({ phase: "Running" }) };
    const verdict = judgeSettings({ iface: "red", network: "ns/b" }, observed);
    expect(verdict).toMatchObject({
      kind: "later",
      note: expect.stringContaining("vmRolloutStrategy") as string,
    });
  });
});
