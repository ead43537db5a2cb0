// SPDX-License-Identifier: Apache-2.0
// What becomes of a migration, by all that is known of it.
import type { MigrationState } from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";
import { describe, expect, test } from "vitest";
import {
  aGuest,
  aGuestFacts,
  aMigration,
  ASKED,
  aSource,
  aTarget,
  NOW,
  openFacts,
  someFacts,
} from "../../testing/migration-facts.ts";
import { decide } from "./decision.ts";
import type { MigrationFacts } from "./facts.ts";

const LOSS = { reason: "NodeUnresponsive", message: "gone" } as const;
const CANCELLED = aMigration("PreparingTarget", { deletionTimestamp: NOW });
const ENDED = aTarget({ phase: "Failed", reason: "Evicted", message: "no disk" });
const STARTED = { startTimestamp: ASKED };
const READY = {
  targetNodeAddress: "192.0.2.2",
  targetDirectMigrationNodePorts: { "40001": 0 },
};
const DISRUPTED = { migrationConfiguration: { allowWorkloadDisruption: true } };

function printDecision(facts: MigrationFacts): string {
  const decision = decide(facts);
  return "why" in decision ? `${decision.kind}: ${decision.why}` : decision.kind;
}

/** A text is the whole of it. */
function patternOf(want: string | RegExp): RegExp {
  if (typeof want !== "string") return want;
  return new RegExp(`^${want.replaceAll(/[.()"]/g, (letter) => `\\${letter}`)}$`);
}

function stopped(state?: MigrationState): Partial<MigrationFacts> {
  const guest = openFacts(state).guest ?? aGuestFacts();
  const vmi = state === undefined ? aGuest() : guest.vmi;
  const metadata = { ...vmi.metadata, deletionTimestamp: NOW };
  return { guest: { ...guest, vmi: { ...vmi, metadata } } };
}

/** The migration object, whose target was ready at the time HH:MM. */
function readySince(time: string): MigrationFacts["migration"] {
  const phaseTransitionTimestamp = `2026-01-01T${time}:00.000Z`;
  const transitions = [{ phase: "TargetReady" as const, phaseTransitionTimestamp }];
  const migration = aMigration("TargetReady");
  return { ...migration, status: { ...migration.status, phaseTransitionTimestamps: transitions } };
}

/** The source's pod has ended. */
function withoutSource(state: MigrationState): MigrationFacts {
  const facts = openFacts(state);
  return { ...facts, guest: { ...aGuestFacts(facts.guest?.vmi), pod: undefined } };
}

describe("before the VMI's status has the migration", () => {
  test.each<{ name: string; change: Partial<MigrationFacts>; want: string | RegExp }>([
    { name: "begins when its queue position allows", change: {}, want: "begin" },
    {
      name: "waits when its queue position does not allow it",
      change: { mayBegin: false },
      want: "wait",
    },
    {
      name: "an earlier migration left a pod",
      change: { leftoverPods: [aTarget()] },
      want: "wait",
    },
    {
      name: "the guest's node does not respond",
      change: { guest: { ...aGuestFacts(), nodeLoss: LOSS } },
      want: "wait",
    },
    {
      name: "the guest was just restarted",
      change: { guest: aGuestFacts(aGuest({ phase: "Scheduled" })) },
      want: "wait",
    },
    {
      name: "the guest can no longer be migrated",
      change: { guest: aGuestFacts(aGuest({ conditions: [] })) },
      want: /^fail: Cannot migrate VMI, Reason: LiveMigratableUnknown/,
    },
    { name: "no node fits", change: { noTargetReason: "none" }, want: "fail: none" },
    {
      name: "the VMI does not exist",
      change: { guest: undefined },
      want: 'fail: the VMI "default/vm1" does not exist',
    },
    {
      name: "the guest has ended",
      change: { guest: aGuestFacts(aGuest({ phase: "Succeeded" })) },
      want: "fail: Cannot migrate VMI in finalized state.",
    },
    {
      name: "it is canceled",
      change: { migration: aMigration("Pending", { deletionTimestamp: NOW }) },
      want: "fail: Migration failed due to being canceled",
    },
    { name: "the VM is stopped", change: stopped(), want: "fail: VMI vm1 is being stopped" },
    {
      name: "the pod waits for a node",
      change: { targetPod: aTarget({ phase: "Pending" }) },
      want: "schedule",
    },
    { name: "the pod is ready", change: { targetPod: aTarget() }, want: "open" },
    {
      name: "the pod was deleted",
      change: { migration: aMigration("Scheduling") },
      want: "fail: the target pod was deleted",
    },
    {
      name: "the pod has ended",
      change: { targetPod: ENDED },
      want: /^fail: target pod \S+ has ended before the guest came: Evicted: no disk$/,
    },
    {
      name: "the pod is being deleted",
      change: {
        targetPod: { ...aTarget(), metadata: { ...aTarget().metadata, deletionTimestamp: NOW } },
      },
      want: /^fail: target pod \S+ is being deleted$/,
    },
    {
      name: "the target's node does not respond",
      change: { targetPod: aTarget(), targetLoss: LOSS },
      want: "fail: node node2, to which the guest was to go, does not answer",
    },
    {
      name: "the target's node lacks a network",
      change: {
        targetPod: aTarget(),
        targetAbsences: new Map([
          ["default/blue", { reason: "NetworkNotOnNode", message: "no blue" }],
        ]),
      },
      want: "fail: no blue",
    },
    { name: "its object does not exist", change: { migration: undefined }, want: "closed" },
  ])("$name", ({ change, want }) => {
    expect(printDecision(someFacts(change))).toMatch(patternOf(want));
  });

  test.each([
    {
      name: "the pod is unschedulable for 5 min",
      minutes: 5,
      want: /^fail: no node has taken .* 0\/1 nodes/,
    },
    { name: "the pod is unschedulable for less than 5 min", minutes: 4, want: /^schedule$/ },
  ])("$name", ({ minutes, want }) => {
    const why = { reason: "Unschedulable", message: "0/1 nodes" };
    const conditions = [{ type: "PodScheduled", status: "False", ...why } as const];
    const targetPod = aTarget({ phase: "Pending", conditions });
    const now = `2026-01-01T00:${String(9 + minutes).padStart(2, "0")}:00.000Z`;
    expect(printDecision(someFacts({ targetPod, now }))).toMatch(want);
  });

  test("the pod is not ready after 15 min", () => {
    const targetPod = aTarget({ phase: "Pending" });
    const now = "2026-01-01T00:24:00.000Z";
    expect(printDecision(someFacts({ targetPod, now }))).toMatch(/^fail: .* was not ready/);
  });
});

describe("while both nodes prepare", () => {
  test.each<{
    name: string;
    state?: MigrationState;
    change?: Partial<MigrationFacts>;
    want: string | RegExp;
  }>([
    { name: "nothing blocks it", want: "continue" },
    { name: "it is on its way", state: STARTED, want: "continue" },
    {
      name: "it is canceled before it starts",
      change: { migration: CANCELLED },
      want: /^fail: .*canceled/,
    },
    { name: "the VM is stopped before it starts", change: stopped({}), want: /^fail: .*stopped/ },
    {
      name: "its object is deleted before it starts",
      change: { migration: undefined },
      want: /^fail: .*canceled/,
    },
    {
      name: "the target pod ends before it starts",
      change: { targetPod: ENDED },
      want: /^fail: .*ended/,
    },
    {
      name: "the guest ends before it starts",
      change: {
        guest: {
          ...aGuestFacts(openFacts().guest?.vmi),
          pod: { ...aSource(), status: { phase: "Succeeded" } },
        },
      },
      want: "fail: the guest has ended",
    },
    {
      name: "the target is not ready after 15 min",
      change: { now: "2026-01-01T00:24:00.000Z" },
      want: /^fail: .* was not ready/,
    },
    {
      name: "a network cannot be attached at the target",
      state: {
        targetAttachments: [
          { name: "one", podInterfaceName: "p", state: "Failed", message: "no address is free" },
        ],
      },
      change: { now: "2026-01-01T00:24:00.000Z" },
      want: /^fail: .* was not ready .*; interface one: no address is free$/,
    },
    {
      name: "the target is ready, and the source does not begin for 15 min",
      state: READY,
      change: { migration: readySince("00:10"), now: "2026-01-01T00:25:00.000Z" },
      want: "fail: virt-handler of the source node node1 did not begin the migration within 15 minutes after the target was ready; check that it runs",
    },
    {
      name: "the source has less than 15 min since a late target is ready",
      state: READY,
      change: { migration: readySince("00:23"), now: "2026-01-01T00:37:00.000Z" },
      want: "continue",
    },
    {
      name: "a target is found to be ready 15 min after the creation of its pod",
      state: READY,
      change: { now: "2026-01-01T00:24:00.000Z" },
      want: "continue",
    },
    {
      name: "the target reports its address without ports for 15 min",
      state: { targetNodeAddress: "192.0.2.2" },
      change: { now: "2026-01-01T00:24:00.000Z" },
      want: /^fail: .* was not ready/,
    },
    {
      name: "it is canceled after its start",
      state: STARTED,
      change: { migration: CANCELLED },
      want: /^abort: .*canceled/,
    },
    {
      name: "it is canceled after an abort was requested",
      state: { ...STARTED, abortRequested: true },
      change: { migration: CANCELLED },
      want: "continue",
    },
    {
      name: "the VM is stopped after its start",
      state: STARTED,
      change: stopped(STARTED),
      want: /^abort/,
    },
    {
      name: "its object is deleted after its start",
      state: STARTED,
      change: { migration: undefined },
      want: /^abort: .*canceled/,
    },
    {
      name: "the target pod ends after its start",
      state: STARTED,
      change: { targetPod: ENDED },
      want: /^abort/,
    },
    {
      name: "the target's node does not respond after its start",
      state: STARTED,
      change: { targetPod: aTarget(), targetLoss: LOSS },
      want: /^abort: node node2/,
    },
    {
      name: "it exceeds the completion timeout",
      state: { startTimestamp: "2026-01-01T00:07:30.000Z" },
      want: "abort: the guest has not moved within 150 s (completionTimeoutPerGiB)",
    },
    {
      name: "it exceeds the completion timeout, and the guest may be paused",
      state: { startTimestamp: "2026-01-01T00:07:30.000Z", ...DISRUPTED },
      want: "continue",
    },
    {
      name: "it exceeds twice the completion timeout, although the guest may be paused",
      state: { startTimestamp: "2026-01-01T00:05:00.000Z", ...DISRUPTED },
      want: /^abort: the guest has not moved within 300 s .* stand still/,
    },
    {
      name: "the source reports a failure",
      state: { failed: true, failureReason: "no way" },
      want: "fail: no way",
    },
    {
      name: "the source reports a failure without a reason",
      state: { failed: true },
      want: "fail: source node reported migration failed",
    },
    {
      name: "the guest runs at the target",
      state: { ...STARTED, targetNodeDomainReadyTimestamp: NOW },
      want: "succeed",
    },
    {
      name: "the guest runs at the target, despite other reports",
      state: { ...STARTED, targetNodeDomainReadyTimestamp: NOW, failed: true },
      change: { migration: CANCELLED, targetLoss: LOSS },
      want: "succeed",
    },
    { name: "it is completed", state: { ...STARTED, completed: true }, want: "closed" },
  ])("$name", ({ state = {}, change = {}, want }) => {
    const facts = { ...openFacts(state), ...change };
    expect(printDecision(facts)).toMatch(patternOf(want));
  });
});

describe("after the source was requested to abort", () => {
  test.each<{
    name: string;
    since: string;
    targetPod: Pod;
    state?: MigrationState;
    want: string | RegExp;
  }>([
    { name: "its word is waited for", since: ASKED, targetPod: ENDED, want: "continue" },
    {
      name: "fails without a report if the target pod has ended",
      since: "2026-01-01T00:05:00.000Z",
      targetPod: ENDED,
      want: /^fail: the target pod has ended, and the source does not report within 5 minutes/,
    },
    {
      name: "waits longer while the target pod runs",
      since: "2026-01-01T00:01:00.000Z",
      targetPod: aTarget(),
      want: "continue",
    },
    {
      name: "fails if the source is silent for too long",
      since: "2025-12-31T23:55:00.000Z",
      targetPod: aTarget(),
      want: "fail: virt-handler of the source node node1 did not report whether it aborted the migration within 15 minutes; check that it runs",
    },
    {
      name: "waits without limit while the guest is paused on the target for a user",
      since: "2025-12-31T23:55:00.000Z",
      targetPod: aTarget(),
      state: { targetNodeDomainFaults: ["no NIC"] },
      want: "continue",
    },
    {
      name: "waits without limit once the guest has left the source",
      since: "2025-12-31T23:55:00.000Z",
      targetPod: aTarget(),
      state: { sourceNodeDomainLeft: true },
      want: "continue",
    },
  ])("$name", ({ since, targetPod, state = {}, want }) => {
    const requested = { ...state, abortRequested: true, abortRequestedTimestamp: since };
    for (const migration of [CANCELLED, undefined]) {
      const facts = openFacts({ ...STARTED, ...requested }, { migration, targetPod });
      expect(printDecision(facts)).toMatch(patternOf(want));
    }
  });
});

describe("once the source's pod has ended", () => {
  const AGO = { s59: "2026-01-01T00:09:01.000Z", s60: ASKED, min5: "2026-01-01T00:05:00.000Z" };
  test.each<{ name: string; state: MigrationState; want: string | RegExp }>([
    {
      name: "the target may still report",
      state: { sourceEndedTimestamp: AGO.s59 },
      want: "continue",
    },
    {
      name: "the target has not reported",
      state: { sourceEndedTimestamp: AGO.s60 },
      want: /^failWithLostGuest: .* within 60 s/,
    },
    {
      name: "the target has the domain, and its virt-handler may return",
      state: { sourceEndedTimestamp: AGO.s60, targetNodeDomainDetected: true },
      want: "continue",
    },
    {
      name: "the target's virt-handler does not return",
      state: { sourceEndedTimestamp: AGO.min5, targetNodeDomainDetected: true },
      want: /^failWithLostGuest: .* within 300 s/,
    },
    {
      name: "no abort is requested",
      state: { sourceEndedTimestamp: AGO.s59, startTimestamp: "2026-01-01T00:00:00.000Z" },
      want: "continue",
    },
  ])("$name", ({ state, want }) => {
    expect(printDecision(withoutSource({ ...STARTED, ...state }))).toMatch(patternOf(want));
  });

  test("and the target pod has ended too: the guest is lost", () => {
    const facts = { ...withoutSource(STARTED), targetPod: ENDED };
    expect(printDecision(facts)).toBe("failWithLostGuest: both pods of the guest have ended");
  });
});

test("fails a running migration only on the source's report or the end of its pod", () => {
  const pods = [undefined, aTarget(), ENDED];
  const migrations = [undefined, CANCELLED, aMigration("Running")];
  const all = pods.flatMap((targetPod) =>
    migrations.map((migration) => ({ targetPod, migration })),
  );
  for (const change of all) {
    for (const now of [NOW, "2026-02-01T00:00:00.000Z"]) {
      const facts = {
        ...openFacts(STARTED),
        ...change,
        ...stopped(STARTED),
        targetLoss: LOSS,
        now,
      };
      expect(decide(facts).kind).toBe("abort");
    }
  }
});
