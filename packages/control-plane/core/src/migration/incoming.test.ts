// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import {
  findIncomingFaults,
  planIncoming,
  type IncomingFacts,
  type IncomingDomain,
} from "./incoming.ts";

const PAUSED = { name: "d", uuid: "u", state: "paused", persistent: true } as const;
const RUNS = { ...PAUSED, state: "running" } as const;
const DETECTED = { targetNodeDomainDetected: true };
const READY = { ...DETECTED, targetNodeDomainReadyTimestamp: "2026-01-01T00:00:00Z" };

function stepsOf(state: object, change: Partial<IncomingFacts>): readonly string[] {
  const facts: IncomingFacts = {
    migration: { migrationUid: "m", ...state },
    isWired: true,
    relay: "reported",
    domain: undefined,
    isIncoming: false,
    isOffAtSource: false,
    wasPausedAtSource: false,
    faults: [],
    ...change,
  };
  return planIncoming(facts).map((step) => (step.kind === "wait" ? `wait ${step.for}` : step.kind));
}

test.each([
  {
    name: "the guest's links are not wired yet",
    change: { isWired: false, relay: "none" },
    want: ["wait wiring"],
  },
  {
    name: "the guest's links are wired",
    change: { relay: "none" },
    want: ["startRelay", "reportAddress", "wait guest"],
  },
  {
    name: "the report was lost",
    change: { relay: "unreported" },
    want: ["reportAddress", "wait guest"],
  },
  { name: "everything is reported", change: {}, want: ["wait guest"] },
  {
    name: "the guest is migrating",
    change: { domain: PAUSED, isIncoming: true },
    want: ["reportDetected", "wait source"],
  },
  {
    name: "the guest is here and the source's state is unknown",
    state: DETECTED,
    change: { domain: PAUSED },
    want: ["wait source"],
  },
  {
    name: "the guest is here and this process has just started",
    state: DETECTED,
    change: { domain: PAUSED, relay: "none" },
    want: ["startRelay", "reportAddress", "wait source"],
  },
  {
    name: "the guest is still incoming, whatever the source reports",
    state: DETECTED,
    change: { domain: PAUSED, isIncoming: true, isOffAtSource: true },
    want: ["wait source"],
  },
  {
    name: "the guest is off at the source",
    state: DETECTED,
    change: { domain: PAUSED, isOffAtSource: true },
    want: ["resume", "reportReady", "stopRelay"],
  },
  {
    name: "the guest is off at the source, where its user had paused it",
    state: DETECTED,
    change: { domain: PAUSED, isOffAtSource: true, wasPausedAtSource: true },
    want: ["announce", "reportReady", "stopRelay"],
  },
  {
    name: "the guest is paused as at the source, and this was reported",
    state: READY,
    change: { domain: PAUSED, wasPausedAtSource: true, relay: "none" },
    want: ["wait end"],
  },
  {
    name: "the guest is off at the source and differs from what was wired",
    state: DETECTED,
    change: { domain: PAUSED, isOffAtSource: true, faults: ["another tap"] },
    want: ["reportFaults", "wait person"],
  },
  {
    name: "the difference was reported",
    state: { ...DETECTED, targetNodeDomainFaults: ["another tap"] },
    change: { domain: PAUSED, isOffAtSource: true, faults: ["another tap"] },
    want: ["wait person"],
  },
  {
    name: "the guest matches what is wired now",
    state: { ...DETECTED, targetNodeDomainFaults: ["another tap"] },
    change: { domain: PAUSED, isOffAtSource: true },
    want: ["resume", "reportFaults", "reportReady", "stopRelay"],
  },
  {
    name: "the guest runs, and this was not reported",
    state: DETECTED,
    change: { domain: RUNS },
    want: ["announce", "reportReady", "stopRelay"],
  },
  {
    name: "the guest runs, and this was reported",
    state: READY,
    change: { domain: RUNS },
    want: ["stopRelay", "wait end"],
  },
  {
    name: "the migration is complete",
    state: READY,
    change: { domain: RUNS, relay: "none" },
    want: ["wait end"],
  },
  {
    name: "the migration has failed",
    state: { ...DETECTED, failed: true },
    change: { domain: PAUSED, isOffAtSource: true },
    want: ["stopRelay", "wait end"],
  },
  {
    name: "the guest has ended here",
    state: DETECTED,
    change: { domain: { ...PAUSED, state: "shutoff" } },
    want: ["wait end"],
  },
] as readonly { name: string; state?: object; change: Partial<IncomingFacts>; want: string[] }[])(
  "$name",
  ({ state = {}, change, want }) => {
    expect(stepsOf(state, change)).toEqual(want);
  },
);

test("never resumes the guest while it may run on the source", () => {
  const bits = [false, true];
  const all = bits.flatMap((isIncoming) =>
    bits.flatMap((isWired) =>
      (["none", "unreported", "reported"] as const).map((relay) => ({
        isIncoming,
        isWired,
        relay,
      })),
    ),
  );
  for (const change of all) {
    expect(stepsOf(DETECTED, { ...change, domain: PAUSED })).not.toContain("resume");
  }
});

const WIRED: IncomingDomain = {
  nics: [{ mac: "02:00:00:00:00:01", tap: "tap1", pciAddress: "0000:01:00.0" }],
  paths: ["/run/disks/a"],
};
const [NIC] = WIRED.nics;

test.each([
  { name: "no differences", came: WIRED, want: [] },
  {
    name: "another NIC's tap",
    came: { ...WIRED, nics: [{ ...NIC, tap: "tap9" }] },
    want: ["the NIC with MAC 02:00:00:00:00:01 has another tap: tap9"],
  },
  {
    name: "a different PCI address",
    came: { ...WIRED, nics: [{ ...NIC, pciAddress: undefined }] },
    want: ["the NIC with MAC 02:00:00:00:00:01 has another place: none"],
  },
  {
    name: "another NIC",
    came: { ...WIRED, nics: [{ ...NIC, mac: "02:00:00:00:00:09" }] },
    want: [
      "a NIC with MAC 02:00:00:00:00:09, which the VM does not have",
      "no NIC with MAC 02:00:00:00:00:01",
    ],
  },
  {
    name: "a path outside the VM",
    came: { ...WIRED, paths: ["/run/disks/a", "/etc/passwd"] },
    want: ["/etc/passwd, which the VM does not use"],
  },
  { name: "fewer paths", came: { ...WIRED, paths: [] }, want: [] },
] as readonly { name: string; came: IncomingDomain; want: string[] }[])(
  "finds differences of the incoming domain: $name",
  ({ came: incoming, want }) => {
    expect(findIncomingFaults(incoming, WIRED)).toEqual(want);
  },
);
