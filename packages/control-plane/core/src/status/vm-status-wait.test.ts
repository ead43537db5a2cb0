// SPDX-License-Identifier: Apache-2.0
// When a VM's status waits for what comes of its NICs.
import type { IfacePhase, VirtualMachine, VmiStatus, VmStatus } from "@patchbay/api";
import { aVm, aVmi, type NicSketch } from "@patchbay/support";
import { expect, test } from "vitest";
import { canDeferVmStatus } from "./vm.ts";

const ONE: NicSketch = { name: "one" };
const DELETING: NicSketch = { name: "one", state: "absent" };
const PLACE = { name: "one", pciAddress: "0000:02:00.0" };
const REPORTED: VmStatus = {
  created: true,
  ready: true,
  printableStatus: "Running",
  observedGeneration: 1,
  pcieTopology: { version: 1, interfaces: [] },
};
const WITH_PLACE = { version: 1, interfaces: [PLACE] };

function vmOf(nics: readonly NicSketch[], status: VmStatus | undefined = REPORTED): VirtualMachine {
  return { ...aVm({ nics }), status };
}

function reported(phase: IfacePhase): VmiStatus {
  const type = phase === "Detaching" ? "Unplug" : "Plug";
  return { phase: "Running", interfaces: [{ name: "one", hotplug: { type, phase } }] };
}

interface Row {
  readonly name: string;
  readonly vm?: VirtualMachine;
  readonly vmi?: ReturnType<typeof aVmi> | undefined;
  readonly next?: Partial<VmStatus>;
  readonly want: boolean;
}

const PLUGGING = aVmi({ nics: [ONE], status: { phase: "Running" } });
const PLUGGED = aVmi({ nics: [ONE], status: reported("Ready") });

test.each<Row>([
  {
    name: "waits for the plug before reporting a generation as observed",
    vmi: PLUGGING,
    want: true,
  },
  {
    name: "waits while the node plugs the NIC",
    vmi: aVmi({ nics: [ONE], status: reported("Attaching") }),
    want: true,
  },
  { name: "does not wait when the NIC is plugged", vmi: PLUGGED, want: false },
  {
    name: "waits for an unplug",
    vm: vmOf([DELETING]),
    vmi: aVmi({ nics: [DELETING], status: reported("Detaching") }),
    want: true,
  },
  {
    name: "waits until the entry is removed from the template too",
    vm: vmOf([DELETING]),
    vmi: aVmi({ status: { phase: "Running" } }),
    want: true,
  },
  {
    name: "does not wait without NICs",
    vm: vmOf([]),
    vmi: aVmi({ status: { phase: "Running" } }),
    want: false,
  },
  {
    name: "does not wait if the guest is not running yet",
    vmi: aVmi({ nics: [ONE], status: { phase: "Scheduled" } }),
    want: false,
  },
  {
    name: "does not wait if the VMI is being deleted",
    vmi: {
      ...PLUGGING,
      metadata: { ...PLUGGING.metadata, deletionTimestamp: "2026-01-01T00:00:00Z" },
    },
    want: false,
  },
  { name: "does not wait without a VMI", vmi: undefined, want: false },
  {
    name: "does not wait with the first status",
    vm: { ...aVm({ nics: [ONE] }) },
    vmi: PLUGGING,
    want: false,
  },
  {
    name: "does not wait with a changed printable status",
    vmi: PLUGGING,
    next: { printableStatus: "Stopping" },
    want: false,
  },
  {
    name: "does not wait with a changed condition",
    vmi: PLUGGING,
    next: { conditions: [{ type: "RestartRequired", status: "True" }] },
    want: false,
  },
  {
    name: "does not wait with a new PCI address",
    vmi: PLUGGING,
    next: { pcieTopology: WITH_PLACE },
    want: false,
  },
  {
    name: "waits with a released PCI address",
    vm: vmOf([DELETING], { ...REPORTED, pcieTopology: WITH_PLACE }),
    vmi: aVmi({ nics: [DELETING], status: reported("Detaching") }),
    want: true,
  },
  {
    name: "does not wait with a changed layout version",
    vmi: PLUGGING,
    next: { pcieTopology: { version: 2, interfaces: [] } },
    want: false,
  },
])("$name", ({ vm = vmOf([ONE]), vmi, next = {}, want }) => {
  const conditions = undefined;
  const rest = { conditions, runStrategy: undefined, startFailure: undefined };
  const wanted = {
    ...REPORTED,
    ...rest,
    stateChangeRequests: undefined,
    observedGeneration: 2,
    ...next,
  };
  expect(canDeferVmStatus(vm, vmi, wanted)).toBe(want);
});
