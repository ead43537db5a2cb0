// SPDX-License-Identifier: Apache-2.0
import type { IfaceStatus, VmiStatus } from "@patchbay/api";
import type { NodeVmStatus } from "@patchbay/core";
import type { Note } from "@patchbay/kube";
import { expect, test } from "vitest";
import { aScheduledVmi } from "../../testing/scene.ts";
import { announce } from "./announce.ts";

const since = "2026-01-01T00:00:00Z";

function notesOf(before: VmiStatus, next: NodeVmStatus): readonly Note[] {
  const notes: Note[] = [];
  const record = (_vmi: unknown, note: Note): void => {
    notes.push(note);
  };
  announce(aScheduledVmi([], before), next, { events: { record, flush: () => Promise.resolve() } });
  return notes;
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
        message: "interface one is in the VM at 0000:09:00.0",
        about: "one",
      },
    ],
  },
  { name: "nothing of a NIC that stays there", before: [READY], after: [READY], notes: [] },
  {
    name: "a NIC that has gone",
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
  { name: "nothing when the report has no NICs", before: [READY], notes: [] },
  { name: "nothing of a NIC whose phase nobody knows", before: [], after: [ONE], notes: [] },
  { name: "nothing of a NIC that does not wait", before: [], after: [iface({})], notes: [] },
  {
    name: "why a NIC waits whose phase nobody knew",
    before: [ONE],
    after: [iface({ reason: "TapRefused" })],
    notes: [
      { type: "Warning", reason: "TapRefused", message: "interface one: TapRefused", about: "one" },
    ],
  },
  {
    name: "why a NIC does not go on, with the words for it",
    before: [iface({})],
    after: [iface({ reason: "TapRefused", message: "no tap" })],
    notes: [
      { type: "Warning", reason: "TapRefused", message: "interface one: no tap", about: "one" },
    ],
  },
  {
    name: "the reason alone where there are no words",
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
    name: "nothing of a reason that was told before",
    before: [iface({ reason: "TapRefused", message: "no tap" })],
    after: [iface({ reason: "TapRefused", message: "still no tap" })],
    notes: [],
  },
  {
    name: "nothing of a guest that was just asked",
    before: [READY],
    after: [iface({ reason: "WaitingForGuest", message: "it was asked" })],
    notes: [],
  },
])("it tells $name", ({ before, after, notes }) => {
  const next = after === undefined ? {} : { interfaces: after };
  expect(notesOf({ interfaces: before }, next)).toEqual(notes);
});

test.each(["DomainBusy", "DomainMissing", "DomainNotRunning", "WaitingForMigration"])(
  "%s ends by itself, and is no warning",
  (reason) => {
    const [note] = notesOf({}, { interfaces: [iface({ reason })] });
    expect(note).toMatchObject({ type: "Normal", reason });
  },
);

test("it tells of a VMI of which nothing was told before", () => {
  const notes: Note[] = [];
  const record = (_vmi: unknown, note: Note): void => void notes.push(note);
  const vmi = aScheduledVmi([]);
  Reflect.deleteProperty(vmi, "status");
  const next = { hindrance: refused, interfaces: [READY] };
  announce(vmi, next, { events: { record, flush: () => Promise.resolve() } });
  expect(notes.map(({ reason }) => reason)).toEqual(["SyncFailed", "InterfacePlugged"]);
});

const refused = { reason: "GuestNotStarted", message: "no kernel", attempts: 1, since };

test.each<{ name: string; before: VmiStatus; next: NodeVmStatus; messages: readonly string[] }>([
  {
    name: "a guest that cannot be started",
    before: {},
    next: { hindrance: refused },
    messages: ["SyncFailed the guest cannot be started: no kernel"],
  },
  {
    name: "a guest that cannot be worked with",
    before: { hindrance: refused },
    next: { hindrance: { ...refused, reason: "LauncherUnreachable" } },
    messages: ["SyncFailed the guest cannot be worked with: no kernel"],
  },
  {
    name: "nothing of a hindrance that was told before, in whatever words",
    before: { hindrance: refused },
    next: { hindrance: { ...refused, message: "no disk" } },
    messages: [],
  },
  {
    name: "a guest that runs",
    before: { phase: "Scheduled" },
    next: { phase: "Running" },
    messages: ["Started the guest runs"],
  },
  { name: "nothing of other phases", before: {}, next: { phase: "Scheduled" }, messages: [] },
])("it tells $name", ({ before, next, messages }) => {
  expect(notesOf(before, next).map(({ reason, message }) => `${reason} ${message}`)).toEqual(
    messages,
  );
});
