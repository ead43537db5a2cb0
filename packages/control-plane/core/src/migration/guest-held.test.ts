// SPDX-License-Identifier: Apache-2.0
// What becomes of a guest that has left its node, and does not run at its target?
import type { MigrationState } from "@patchbay/api";
import { describe, expect, test } from "vitest";
import {
  aGuest,
  aGuestFacts,
  aMigration,
  ASKED,
  aTarget,
  NOW,
  openFacts,
} from "../testing/migration-facts.ts";
import { buildVmiStatus } from "../status/vmi.ts";
import { decide } from "./control/decision.ts";
import type { MigrationFacts } from "./control/facts.ts";
import { listMigrationEvents, buildMigrationStatus } from "./control/migration-status.ts";
import { buildVmiFields } from "./control/vmi-status.ts";

const LEFTOVER = {
  startTimestamp: ASKED,
  abortRequested: true,
  abortRequestedTimestamp: ASKED,
  sourceNodeDomainLeft: true,
};
const FAULTS = ["/dev/sda, which it has not"];
const PAUSED = { targetNode: "node2", startTimestamp: ASKED, targetNodeDomainFaults: FAULTS };
const MIN_5 = "2026-01-01T00:05:00.000Z";
const ENDED = aTarget({ phase: "Failed" });
const CANCELLED = aMigration("Running", { deletionTimestamp: NOW });

function stopped(facts: MigrationFacts): MigrationFacts {
  const { vmi } = facts.guest ?? aGuestFacts();
  const metadata = { ...vmi.metadata, deletionTimestamp: NOW };
  return { ...facts, guest: { ...aGuestFacts(vmi), vmi: { ...vmi, metadata } } };
}

function printDecision(facts: MigrationFacts): string {
  const decision = decide(facts);
  return "why" in decision ? `${decision.kind}: ${decision.why}` : decision.kind;
}

test.each<{
  name: string;
  state?: MigrationState;
  change?: Partial<MigrationFacts>;
  isStopped?: true;
  want: RegExp;
}>([
  { name: "it is cancelled: the target lets it go on", want: /^continue$/ },
  { name: "it is cancelled, and held: it waits", state: PAUSED, want: /^continue$/ },
  { name: "its object is gone", change: { migration: undefined }, want: /^continue$/ },
  {
    name: "a migration without its object continues",
    change: { migration: undefined },
    want: /^continue$/,
  },
  {
    name: "the guest is lost if the target pod has ended",
    change: { targetPod: ENDED },
    want: /^failWithLostGuest: the guest had left its node, and is lost at its target: target pod \S+ has ended/,
  },
  {
    name: "the migration continues if the target's node does not respond",
    change: { targetLoss: { reason: "NodeUnresponsive", message: "gone" } },
    want: /^continue$/,
  },
  { name: "the VM is stopped: it is shut down at the target", isStopped: true, want: /^continue$/ },
  {
    name: "a stopped VM with a paused guest is lost",
    state: PAUSED,
    isStopped: true,
    want: /^failWithLostGuest: VMI vm1 is being stopped$/,
  },
  {
    name: "a stopped VM is lost if the target does not report for 5 min",
    state: { abortRequestedTimestamp: MIN_5 },
    isStopped: true,
    want: /^failWithLostGuest: the guest is no longer on the source node, .* within 5 minutes that it runs there$/,
  },
])("after the guest left the source: $name", ({ state, change, isStopped, want }) => {
  const facts = { ...openFacts({ ...LEFTOVER, ...state }), migration: CANCELLED, ...change };
  expect(printDecision(isStopped ? stopped(facts) : facts)).toMatch(want);
});

test("a lost guest has failed, whatever happens to its former pod", () => {
  const facts = openFacts(LEFTOVER, { targetPod: ENDED });
  const members = buildVmiFields(facts, decide(facts));
  expect(members).toMatchObject({
    phase: "Failed",
    reason: "GuestLost",
    activePods: { "pod-uid": "node1" },
    migrationState: { completed: true, failed: true, guestLost: true },
  });
  const { phase = "", reason = "" } = members;
  const vmi = aGuest({ phase, reason });
  const afterwards = { ...aGuestFacts(vmi), failures: [] };
  expect(buildVmiStatus(afterwards, NOW)).toMatchObject({ phase: "Failed", reason: "GuestLost" });
});

describe("a guest paused on its target", () => {
  const message = expect.stringMatching(
    /^the guest is paused on node node2, .*: \/dev\/sda, which it has not\. .*otherwise restart the VM$/,
  ) as string;
  const facts = openFacts(PAUSED);
  const reported = { decision: { kind: "continue" } as const, failures: [], now: NOW };
  const before = aMigration("Running");

  test("is reported on the VMI, which is not ready", () => {
    const vmi = facts.guest?.vmi ?? aGuest();
    const { conditions } = buildVmiStatus({ ...aGuestFacts(vmi), failures: [] }, NOW);
    expect(conditions).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ type: "Ready", status: "False", reason: "GuestHeld", message }),
        expect.objectContaining({ type: "GuestHeld", reason: "ArrivedOtherwise", message }),
      ]),
    );
  });

  test("is reported on its migration, and once by events", () => {
    const status = buildMigrationStatus({ ...reported, migration: before, state: PAUSED });
    expect(status.conditions).toMatchObject([{ type: "GuestHeld", status: "True" }]);
    const { decision: decision } = reported;
    const notes = listMigrationEvents({ before, status, decision, facts });
    expect(notes).toEqual(
      (["migration", "vmi"] as const).map((on) => ({
        on,
        note: { type: "Warning", reason: "GuestHeld", message },
      })),
    );
    expect(listMigrationEvents({ before: { ...before, status }, status, decision, facts })).toEqual(
      [],
    );
  });

  test("is not reported after the end of the migration", () => {
    const state = { ...PAUSED, completed: true };
    const status = buildMigrationStatus({ ...reported, migration: before, state });
    expect(status).not.toHaveProperty("conditions");
  });
});
