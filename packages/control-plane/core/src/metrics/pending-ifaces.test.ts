// SPDX-License-Identifier: Apache-2.0
import type { Attachment, IfacePhase, IfaceStatus, VmiStatus } from "@patchbay/api";
import { aVmi } from "@patchbay/support";
import { expect, test } from "vitest";
import { toHotplugType } from "../nics/phase.ts";
import { ifacePhaseFamily, pendingIfaces, findEndedPhases, newReasons } from "./pending-ifaces.ts";

const SINCE = "2026-01-01T00:00:00Z";

function reported(
  phase: IfacePhase,
  more: Partial<IfaceStatus["hotplug"] & object> = {},
): IfaceStatus {
  const hotplug = { type: toHotplugType(phase), phase, since: SINCE, ...more };
  return { name: "one", podInterfaceName: "pod1", hotplug };
}

function attached(podInterfaceName: string, state: Attachment["state"]): Attachment {
  return { name: "one", networkName: "default/blue", podInterfaceName, state };
}

function vmiOf(nics: Parameters<typeof aVmi>[0] & object, status: VmiStatus) {
  return aVmi({ ...nics, status });
}

const WANTED = { nics: [{ name: "one" }] };
const DELETED = { nics: [] };

test.each([
  { what: "nothing reported yet", nics: WANTED, status: {}, want: "Plug" },
  { what: "being wired", nics: WANTED, status: { interfaces: [reported("Wiring")] }, want: "Plug" },
  { what: "ready", nics: WANTED, status: { interfaces: [reported("Ready")] }, want: undefined },
  {
    what: "a status without a phase",
    nics: WANTED,
    status: { interfaces: [{ name: "one" }] },
    want: "Plug",
  },
  {
    what: "another network is requested for the pod",
    nics: WANTED,
    status: {
      interfaces: [reported("Ready")],
      attachments: [attached("pod1", "Attached"), attached("pod2", "Requested")],
    },
    want: "Swap",
  },
  {
    what: "the previous network is being removed from the pod",
    nics: WANTED,
    status: {
      interfaces: [reported("Ready")],
      attachments: [attached("pod1", "Attached"), attached("pod2", "Removing")],
    },
    want: undefined,
  },
  { what: "moves", nics: WANTED, status: { interfaces: [reported("Switching")] }, want: "Swap" },
  { what: "goes", nics: DELETED, status: { interfaces: [reported("Detaching")] }, want: "Unplug" },
  {
    what: "no longer requested",
    nics: DELETED,
    status: { interfaces: [reported("Ready")] },
    want: "Unplug",
  },
  { what: "gone", nics: DELETED, status: {}, want: undefined },
])("the pending operation of an iface: $what", ({ nics, status, want }) => {
  expect(pendingIfaces(vmiOf(nics, status)).map(({ type }) => type)).toEqual(
    want === undefined ? [] : [want],
  );
});

test("does not count links that the guest created itself", () => {
  expect(pendingIfaces(vmiOf(DELETED, { interfaces: [{ interfaceName: "docker0" }] }))).toEqual([]);
});

test.each([
  {
    what: "a new reason",
    before: reported("Wiring"),
    after: { reason: "WireFailed", attempts: 1 },
    want: 1,
  },
  {
    what: "another attempt",
    before: reported("Wiring", { reason: "WireFailed", attempts: 1 }),
    after: { reason: "WireFailed", attempts: 2 },
    want: 1,
  },
  {
    what: "the same attempt",
    before: reported("Wiring", { reason: "WireFailed", attempts: 2 }),
    after: { reason: "WireFailed", attempts: 2 },
    want: 0,
  },
  { what: "none", before: reported("Wiring"), after: {}, want: 0 },
])("counts a reason when it is reported: $what", ({ before, after, want }) => {
  const was = vmiOf(WANTED, { interfaces: [before] });
  const is = vmiOf(WANTED, { interfaces: [reported("Wiring", after)] });
  expect(newReasons(was, is)).toEqual(Array.from({ length: want }, () => "WireFailed"));
});

test("reports every phase, also with 0 ifaces", () => {
  const { samples } = ifacePhaseFamily([
    vmiOf(WANTED, { interfaces: [reported("Ready")] }),
    vmiOf(WANTED, { interfaces: [reported("Ready")] }),
    vmiOf(WANTED, { interfaces: [reported("Wiring", { reason: "MacInUse" })] }),
    vmiOf(WANTED, {}),
  ]);
  expect(samples).toHaveLength(11);
  expect(samples).toContainEqual({ labels: { phase: "Ready", reason: "" }, value: 2 });
  expect(samples).toContainEqual({ labels: { phase: "Wiring", reason: "" }, value: 0 });
  expect(samples).toContainEqual({ labels: { phase: "Wiring", reason: "MacInUse" }, value: 1 });
  expect(samples).toContainEqual({ labels: { phase: "Detaching", reason: "" }, value: 0 });
});

const LATER = "2026-01-01T00:00:00.250Z";

test.each<{ what: string; before: IfaceStatus[]; after: IfaceStatus[]; want: object[] }>([
  {
    what: "enters its next phase",
    before: [reported("Wiring")],
    after: [reported("Attaching", { since: LATER })],
    want: [{ type: "Plug", phase: "Wiring", since: SINCE, until: LATER }],
  },
  {
    what: "disappears",
    before: [reported("Detaching")],
    after: [],
    want: [{ type: "Unplug", phase: "Detaching", since: SINCE }],
  },
  { what: "was ready", before: [reported("Ready")], after: [reported("Detaching")], want: [] },
  {
    what: "gets a reason",
    before: [reported("Wiring")],
    after: [reported("Wiring", { reason: "Busy" })],
    want: [],
  },
  { what: "is new", before: [], after: [reported("Wiring")], want: [] },
  { what: "had no phase", before: [{ name: "one" }], after: [reported("Wiring")], want: [] },
])("the ended phases of an iface that $what are $want", ({ before, after, want }) => {
  const [left, right] = [before, after].map((interfaces) => vmiOf(WANTED, { interfaces }));
  expect(findEndedPhases(left ?? vmiOf(WANTED, {}), right ?? vmiOf(WANTED, {}))).toEqual(want);
});
