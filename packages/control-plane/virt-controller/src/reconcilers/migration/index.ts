// SPDX-License-Identifier: Apache-2.0
// Reconciliation of migrations. Creates the target pod, coordinates both nodes through the VMI, and deletes the unused pod at the end.
import {
  VIRTUAL_MACHINE_INSTANCE_MIGRATIONS,
  type VirtualMachineInstanceMigration,
} from "@patchbay/api";
import {
  listMigrationEvents,
  buildMigrationStatus,
  decideNext,
  findMigrationState,
  type MigrationFacts,
  nextDeadlineMs,
  planMigrations,
} from "@patchbay/core/migration";
import { statusPatch } from "@patchbay/core/status";
import {
  keyOf,
  after,
  done,
  earliest,
  type Next,
  type ObjectStepsResult,
  rethrowFirst,
} from "@patchbay/kube";
import type { Deps } from "../../deps.ts";
import { actMigrations } from "./act.ts";
import { observeMigrations } from "./observe.ts";

type Migration = VirtualMachineInstanceMigration;
type Status = ReturnType<typeof buildMigrationStatus>;

async function writeStatus(migration: Migration, status: Status, deps: Deps): Promise<boolean> {
  const newest = deps.mutationCache.newest(migration);
  const operations = statusPatch(newest, status);
  if (operations.length === 0) return false;
  const patch = { type: "json", operations } as const;
  const options = { subresource: "status" } as const;
  const type = VIRTUAL_MACHINE_INSTANCE_MIGRATIONS;
  deps.mutationCache.note(await deps.store.patch(type, keyOf(newest), patch, options));
  return true;
}

/** Replaces the VMI in the facts with this process's last write of the VMI, if that write is newer. */
function withNewestVmi(facts: MigrationFacts, deps: Deps): MigrationFacts {
  const { guest } = facts;
  if (guest === undefined) return facts;
  return { ...facts, guest: { ...guest, vmi: deps.mutationCache.newest(guest.vmi) } };
}

async function reportCurrent(
  migration: Migration,
  facts: MigrationFacts,
  options: { readonly failures: ObjectStepsResult["failures"]; readonly deps: Deps },
): Promise<void> {
  const { failures, deps } = options;
  const decision = decideNext(facts);
  const currentFacts = withNewestVmi(facts, deps);
  const state = findMigrationState(currentFacts);
  // If the write of the VMI failed, the migration's status must not report progress.
  if (failures.some(({ step }) => step === "patchVmiMigration")) return;
  const status = buildMigrationStatus({
    migration,
    decision,
    state,
    failures,
    now: facts.now,
  });
  if (!(await writeStatus(migration, status, deps))) return;
  for (const { on, note } of listMigrationEvents({
    before: migration,
    status,
    decision,
    facts: currentFacts,
  })) {
    const object = on === "vmi" ? currentFacts.guest?.vmi : migration;
    if (object !== undefined) deps.events.record(object, note);
  }
}

async function reportMigrations(
  facts: MigrationFacts,
  { failures }: ObjectStepsResult,
  deps: Deps,
): Promise<void> {
  const { migration, waiting, now } = facts;
  if (migration !== undefined) await reportCurrent(migration, facts, { failures, deps });
  const decision = { kind: "wait" } as const;
  for (const each of waiting.filter(({ metadata }) => metadata.deletionTimestamp === undefined)) {
    const currentFacts = { migration: each, decision, state: undefined, failures: [], now };
    await writeStatus(each, buildMigrationStatus(currentFacts), deps);
  }
}

export async function reconcileMigrations(key: string, deps: Deps): Promise<Next> {
  const facts = await observeMigrations(key, deps);
  if (facts === undefined) return done();
  const performed = await actMigrations(planMigrations(facts), facts, deps);
  // Throws transient errors, such as conflicts, before the migration's status is written. Otherwise, the migration's status could
  // report progress that the VMI's status does not show yet.
  rethrowFirst(performed);
  await reportMigrations(facts, performed, deps);
  const nextMs = earliest([performed.retryInMs, nextDeadlineMs(facts)]);
  return nextMs === undefined ? done() : after(nextMs);
}
