// SPDX-License-Identifier: Apache-2.0
import type { IfaceStatus, VirtualMachineInstance, VmiStatus } from "@patchbay/api";
import type { KubeObject } from "@patchbay/api/kubernetes";
import type { NodeVmStatus } from "@patchbay/core/status";
import type { Note } from "@patchbay/kube";
import { expect, test } from "vitest";
import { aScheduledVmi } from "../../testing/scene.ts";
import { announceChanges } from "./report.ts";

const since = "2026-01-01T00:00:00Z";

/** Events about the VMI, with their object. */
function toldOf(vmi: VirtualMachineInstance, next: NodeVmStatus, took?: string) {
  const told: { readonly on: KubeObject; readonly note: Note }[] = [];
  const record = (on: KubeObject, note: Note): void => void told.push({ on, note });
  const phaseTimings = { describe: () => took };
  announceChanges(vmi, next, { events: { record, flush: () => Promise.resolve() }, phaseTimings });
  return told;
}

function notesOf(before: VmiStatus, next: NodeVmStatus, took?: string): readonly Note[] {
  return toldOf(aScheduledVmi([], before), next, took).map(({ note }) => note);
}

type Hotplug = NonNullable<IfaceStatus["hotplug"]>;

function iface(hotplug: Partial<Hotplug>, more: Partial<IfaceStatus> = {}): IfaceStatus {
  return { name: "one", hotplug: { type: "Plug", phase: "Attaching", since, ...hotplug }, ...more };
}

const ONE: IfaceStatus = { name: "one" };
const READY = iface({ phase: "Ready" }, { pciAddress: "0000:09:00.0" });

test.each<{ name: string; before: IfaceStatus[]; after?: IfaceStatus[]; notes: Note[] }>([
  {
    name: "a NIC that is in the VM, once, with its address",
    before: [iface({})],
    after: [READY],
    notes: [
      {
        type: "Normal",
        reason: "InterfacePlugged",
        message: "interface one is in the VM at 0000:09:00.0, on the pod's network",
        about: "one",
      },
    ],
  },
  { name: "nothing for a NIC that remains plugged", before: [READY], after: [READY], notes: [] },
  {
    name: "an unplugged NIC",
    before: [READY],
    after: [],
    notes: [
      {
        type: "Normal",
        reason: "InterfaceUnplugged",
        message: "interface one is out of the VM and of its pod",
        about: "one",
      },
    ],
  },
  { name: "nothing if the status has no NICs", before: [READY], notes: [] },
  { name: "nothing for a NIC without a phase", before: [], after: [ONE], notes: [] },
  { name: "nothing for a NIC without a reason", before: [], after: [iface({})], notes: [] },
  {
    name: "why a NIC without a phase is blocked",
    before: [ONE],
    after: [iface({ reason: "TapRefused" })],
    notes: [
      { type: "Warning", reason: "TapRefused", message: "interface one: TapRefused", about: "one" },
    ],
  },
  {
    name: "why a NIC is blocked, with its message",
    before: [iface({})],
    after: [iface({ reason: "TapRefused", message: "no tap" })],
    notes: [
      { type: "Warning", reason: "TapRefused", message: "interface one: no tap", about: "one" },
    ],
  },
  {
    name: "only the reason if the message is missing",
    before: [],
    after: [iface({ reason: "TapRefused" })],
    notes: [
      { type: "Warning", reason: "TapRefused", message: "interface one: TapRefused", about: "one" },
    ],
  },
  {
    name: "why the link of a NIC that is in the VM is not set",
    before: [READY],
    after: [iface({ phase: "Ready", reason: "LinkStateFailed", message: "no" })],
    notes: [
      { type: "Warning", reason: "LinkStateFailed", message: "interface one: no", about: "one" },
    ],
  },
  {
    name: "nothing for a reason that was already reported",
    before: [iface({ reason: "TapRefused", message: "no tap" })],
    after: [iface({ reason: "TapRefused", message: "still no tap" })],
    notes: [],
  },
  {
    name: "nothing for an unplug that the guest was just asked to complete",
    before: [READY],
    after: [iface({ reason: "WaitingForGuest", message: "it was asked" })],
    notes: [],
  },
])("reports $name", ({ before, after, notes }) => {
  const next = after === undefined ? {} : { interfaces: after };
  expect(notesOf({ interfaces: before }, next)).toEqual(notes);
});

test.each(["DomainBusy", "DomainMissing", "DomainNotRunning", "WaitingForMigration"])(
  "%s ends on its own without a warning",
  (reason) => {
    const [note] = notesOf({}, { interfaces: [iface({ reason })] });
    expect(note).toMatchObject({ type: "Normal", reason });
  },
);

test("reports on a VMI without an earlier report", () => {
  const vmi = aScheduledVmi([]);
  Reflect.deleteProperty(vmi, "status");
  const told = toldOf(vmi, { blockedReason: refused, interfaces: [READY] });
  expect(told.map(({ note }) => note.reason)).toEqual(["SyncFailed", "InterfacePlugged"]);
});

test("reports how long a NIC took, and its location", () => {
  const took = "after 0.84 s (pod 0.51 s, device 0.33 s)";
  const vmi = aScheduledVmi(["one"]);
  const swapped = { ...READY, podInterfaceName: "pod2" };
  const messages = (before: IfaceStatus[], after: IfaceStatus[]): readonly string[] =>
    toldOf({ ...vmi, status: { interfaces: before } }, { interfaces: after }, took).map(
      ({ note }) => note.message,
    );
  const ready = { ...READY, mac: "02:00:00:00:00:01" };
  expect(messages([], [ready])).toEqual([
    `interface one is in the VM at 0000:09:00.0, on network blue with MAC 02:00:00:00:00:01, ${took}`,
  ]);
  expect(messages([READY], [swapped])).toEqual([
    `interface one is on network blue now, with the MAC and the PCI address that it had, ${took}`,
  ]);
  expect(messages([READY], [])).toEqual([`interface one is out of the VM and of its pod, ${took}`]);
});

test("records NIC events on the VM that declares them, and guest events on the VMI", () => {
  const vmi = aScheduledVmi([]);
  const owner = { apiVersion: "kubevirt.io/v1", kind: "VirtualMachine", name: "vm1", uid: "u" };
  const ownerReferences = [{ ...owner, controller: true, blockOwnerDeletion: true }];
  const owned = { ...vmi, metadata: { ...vmi.metadata, ownerReferences } };
  const next = { phase: "Running", interfaces: [READY] } as const;
  const kinds = (told: ReturnType<typeof toldOf>): readonly string[] =>
    told.map(({ on, note }) => `${note.reason} ${on.kind} ${on.metadata.uid ?? ""}`);
  // A list of one, as the status has it.
  const report = { ...next, interfaces: [...next.interfaces] };
  expect(kinds(toldOf(owned, report))).toEqual([
    `Started VirtualMachineInstance ${vmi.metadata.uid ?? ""}`,
    "InterfacePlugged VirtualMachine u",
  ]);
  expect(kinds(toldOf(vmi, report)).map((each) => each.split(" ")[1])).toEqual([
    "VirtualMachineInstance",
    "VirtualMachineInstance",
  ]);
});

const refused = { reason: "GuestNotStarted", message: "no kernel", attempts: 1, since };

test.each<{ name: string; before: VmiStatus; next: NodeVmStatus; messages: readonly string[] }>([
  {
    name: "a guest that cannot be started",
    before: {},
    next: { blockedReason: refused },
    messages: ["SyncFailed the guest cannot be started: no kernel"],
  },
  {
    name: "a guest that cannot be worked with",
    before: { blockedReason: refused },
    next: { blockedReason: { ...refused, reason: "LauncherUnreachable" } },
    messages: ["SyncFailed the guest cannot be managed: no kernel"],
  },
  {
    name: "nothing for a blocked reason that was already reported, even with a new message",
    before: { blockedReason: refused },
    next: { blockedReason: { ...refused, message: "no disk" } },
    messages: [],
  },
  {
    name: "a guest that runs",
    before: { phase: "Scheduled" },
    next: { phase: "Running" },
    messages: ["Started the guest runs"],
  },
  { name: "nothing of other phases", before: {}, next: { phase: "Scheduled" }, messages: [] },
])("reports $name", ({ before, next, messages }) => {
  expect(notesOf(before, next).map(({ reason, message }) => `${reason} ${message}`)).toEqual(
    messages,
  );
});

test("records no warnings for a VMI that is being deleted", () => {
  const vmi = aScheduledVmi([], { interfaces: [READY] });
  const detaching = { phase: "Detaching", reason: "DetachFailed", message: "no" } as const;
  const blockedReason = { reason: "LauncherUnreachable", message: "no", attempts: 3, since };
  const next = { interfaces: [iface(detaching)], blockedReason };
  const reasonsOf = (told: ReturnType<typeof toldOf>) => told.map(({ note }) => note.reason);
  expect(reasonsOf(toldOf(vmi, next))).toEqual(["SyncFailed", "DetachFailed"]);
  const metadata = { ...vmi.metadata, deletionTimestamp: since };
  expect(reasonsOf(toldOf({ ...vmi, metadata }, next))).toEqual([]);
});
