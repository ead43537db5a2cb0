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
  { name: "a generation that was seen waits for the plug", vmi: PLUGGING, want: true },
  {
    name: "it waits while the node works on it",
    vmi: aVmi({ nics: [ONE], status: reported("Attaching") }),
    want: true,
  },
  { name: "it does not when the NIC is there", vmi: PLUGGED, want: false },
  {
    name: "it waits for an unplug",
    vm: vmOf([DELETING]),
    vmi: aVmi({ nics: [DELETING], status: reported("Detaching") }),
    want: true,
  },
  {
    name: "it waits until the entry has left the template too",
    vm: vmOf([DELETING]),
    vmi: aVmi({ status: { phase: "Running" } }),
    want: true,
  },
  {
    name: "it does not without NICs",
    vm: vmOf([]),
    vmi: aVmi({ status: { phase: "Running" } }),
    want: false,
  },
  {
    name: "it does not where the guest does not run yet",
    vmi: aVmi({ nics: [ONE], status: { phase: "Scheduled" } }),
    want: false,
  },
  {
    name: "it does not where the guest is about to end",
    vmi: {
      ...PLUGGING,
      metadata: { ...PLUGGING.metadata, deletionTimestamp: "2026-01-01T00:00:00Z" },
    },
    want: false,
  },
  { name: "it does not without a VMI", vmi: undefined, want: false },
  { name: "a first status does not", vm: { ...aVm({ nics: [ONE] }) }, vmi: PLUGGING, want: false },
  {
    name: "another word does not",
    vmi: PLUGGING,
    next: { printableStatus: "Stopping" },
    want: false,
  },
  {
    name: "a condition does not",
    vmi: PLUGGING,
    next: { conditions: [{ type: "RestartRequired", status: "True" }] },
    want: false,
  },
  { name: "a new place does not", vmi: PLUGGING, next: { pcieTopology: WITH_PLACE }, want: false },
  {
    name: "a place that is let go does",
    vm: vmOf([DELETING], { ...REPORTED, pcieTopology: WITH_PLACE }),
    vmi: aVmi({ nics: [DELETING], status: reported("Detaching") }),
    want: true,
  },
  {
    name: "another layout does not",
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
