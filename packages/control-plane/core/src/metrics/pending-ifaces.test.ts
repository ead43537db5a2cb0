// SPDX-License-Identifier: Apache-2.0
import type { Attachment, IfacePhase, IfaceStatus, VmiStatus } from "@patchbay/api";
import { aVmi } from "@patchbay/support";
import { expect, test } from "vitest";
import { hotplugTypeOf } from "../nics/phase.ts";
import { ifacePhaseFamily, pendingIfaces, findEndedPhases, newReasons } from "./pending-ifaces.ts";

const SINCE = "2026-01-01T00:00:00Z";

function told(phase: IfacePhase, more: Partial<IfaceStatus["hotplug"] & object> = {}): IfaceStatus {
  const hotplug = { type: hotplugTypeOf(phase), phase, since: SINCE, ...more };
  return { name: "one", podInterfaceName: "pod1", hotplug };
}

function attached(podInterfaceName: string, state: Attachment["state"]): Attachment {
  return { name: "one", networkName: "default/blue", podInterfaceName, state };
}

function vmiOf(nics: Parameters<typeof aVmi>[0] & object, status: VmiStatus) {
  return aVmi({ ...nics, status });
}

const WANTED = { nics: [{ name: "one" }] };
const GONE = { nics: [] };

test.each([
  { what: "nothing told yet", nics: WANTED, status: {}, want: "Plug" },
  { what: "on its way", nics: WANTED, status: { interfaces: [told("Wiring")] }, want: "Plug" },
  { what: "ready", nics: WANTED, status: { interfaces: [told("Ready")] }, want: undefined },
  { what: "foreign status", nics: WANTED, status: { interfaces: [{ name: "one" }] }, want: "Plug" },
  {
    what: "another network is asked of the pod",
    nics: WANTED,
    status: {
      interfaces: [told("Ready")],
      attachments: [attached("pod1", "Attached"), attached("pod2", "Requested")],
    },
    want: "Swap",
  },
  {
    what: "the former network leaves the pod",
    nics: WANTED,
    status: {
      interfaces: [told("Ready")],
      attachments: [attached("pod1", "Attached"), attached("pod2", "Removing")],
    },
    want: undefined,
  },
  { what: "moves", nics: WANTED, status: { interfaces: [told("Switching")] }, want: "Swap" },
  { what: "goes", nics: GONE, status: { interfaces: [told("Detaching")] }, want: "Unplug" },
  {
    what: "not wanted any more",
    nics: GONE,
    status: { interfaces: [told("Ready")] },
    want: "Unplug",
  },
  { what: "gone", nics: GONE, status: {}, want: undefined },
])("of an iface is pending, when it is: $what", ({ nics, status, want }) => {
  expect(pendingIfaces(vmiOf(nics, status)).map(({ type }) => type)).toEqual(
    want === undefined ? [] : [want],
  );
});

test("the links that a guest made by itself are nobody's request", () => {
  expect(pendingIfaces(vmiOf(GONE, { interfaces: [{ interfaceName: "docker0" }] }))).toEqual([]);
});

test.each([
  {
    what: "a new one",
    before: told("Wiring"),
    after: { reason: "WireFailed", attempts: 1 },
    want: 1,
  },
  {
    what: "another attempt",
    before: told("Wiring", { reason: "WireFailed", attempts: 1 }),
    after: { reason: "WireFailed", attempts: 2 },
    want: 1,
  },
  {
    what: "the same again",
    before: told("Wiring", { reason: "WireFailed", attempts: 2 }),
    after: { reason: "WireFailed", attempts: 2 },
    want: 0,
  },
  { what: "none", before: told("Wiring"), after: {}, want: 0 },
])("reasons are counted when they are told: $what", ({ before, after, want }) => {
  const was = vmiOf(WANTED, { interfaces: [before] });
  const is = vmiOf(WANTED, { interfaces: [told("Wiring", after)] });
  expect(newReasons(was, is)).toEqual(Array.from({ length: want }, () => "WireFailed"));
});

test("every phase has its number, also 0", () => {
  const { samples } = ifacePhaseFamily([
    vmiOf(WANTED, { interfaces: [told("Ready")] }),
    vmiOf(WANTED, { interfaces: [told("Ready")] }),
    vmiOf(WANTED, { interfaces: [told("Wiring", { reason: "MacInUse" })] }),
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
    what: "gets on",
    before: [told("Wiring")],
    after: [told("Attaching", { since: LATER })],
    want: [{ type: "Plug", phase: "Wiring", since: SINCE, until: LATER }],
  },
  {
    what: "is gone",
    before: [told("Detaching")],
    after: [],
    want: [{ type: "Unplug", phase: "Detaching", since: SINCE }],
  },
  { what: "was ready", before: [told("Ready")], after: [told("Detaching")], want: [] },
  {
    what: "is told why it waits",
    before: [told("Wiring")],
    after: [told("Wiring", { reason: "Busy" })],
    want: [],
  },
  { what: "is new", before: [], after: [told("Wiring")], want: [] },
  { what: "is foreign", before: [{ name: "one" }], after: [told("Wiring")], want: [] },
])("a phase of an iface that $what has ended: $want", ({ before, after, want }) => {
  const [left, right] = [before, after].map((interfaces) => vmiOf(WANTED, { interfaces }));
  expect(findEndedPhases(left ?? vmiOf(WANTED, {}), right ?? vmiOf(WANTED, {}))).toEqual(want);
});
