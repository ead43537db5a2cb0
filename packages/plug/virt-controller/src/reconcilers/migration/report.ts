// SPDX-License-Identifier: Apache-2.0
// What is told of the migrations of a VMI: one write for each at most, and events, which tell the story on both objects.
import {
  VIRTUAL_MACHINE_INSTANCE_MIGRATIONS,
  type VirtualMachineInstanceMigration,
} from "@patchbay/api";
import {
  migrationNotes,
  migrationStatus,
  nextCourse,
  stateIn,
  statusPatch,
  type MigrationFacts,
} from "@patchbay/core";
import { keyOf } from "@patchbay/kube";
import type { Deps } from "../../deps.ts";
import type { PerformedSteps } from "../steps.ts";

type Migration = VirtualMachineInstanceMigration;
type Status = ReturnType<typeof migrationStatus>;

async function write(migration: Migration, status: Status, deps: Deps): Promise<boolean> {
  const newest = deps.ownWrites.newest(migration);
  const operations = statusPatch(newest, status);
  if (operations.length === 0) return false;
  const patch = { type: "json", operations } as const;
  const options = { subresource: "status" } as const;
  const type = VIRTUAL_MACHINE_INSTANCE_MIGRATIONS;
  deps.ownWrites.note(await deps.store.patch(type, keyOf(newest), patch, options));
  return true;
}

/** With the VMI as this pass has left it. */
function afterwards(facts: MigrationFacts, deps: Deps): MigrationFacts {
  const { guest } = facts;
  if (guest === undefined) return facts;
  return { ...facts, guest: { ...guest, vmi: deps.ownWrites.newest(guest.vmi) } };
}

async function reportCurrent(
  migration: Migration,
  facts: MigrationFacts,
  by: { readonly failures: PerformedSteps["failures"]; readonly deps: Deps },
): Promise<void> {
  const { failures, deps } = by;
  const course = nextCourse(facts);
  const told = afterwards(facts, deps);
  const state = stateIn(told);
  // What the VMI could not be told has not happened.
  if (failures.some(({ step }) => step === "tellMigration")) return;
  const status = migrationStatus({ migration, course, state, failures, now: facts.now });
  if (!(await write(migration, status, deps))) return;
  for (const { on, note } of migrationNotes({ before: migration, status, course, facts: told })) {
    const object = on === "vmi" ? told.guest?.vmi : migration;
    if (object !== undefined) deps.events.record(object, note);
  }
}

/** Tells what is new of each. */
export async function reportMigrations(
  facts: MigrationFacts,
  { failures }: PerformedSteps,
  deps: Deps,
): Promise<void> {
  const { migration, waiting, now } = facts;
  if (migration !== undefined) await reportCurrent(migration, facts, { failures, deps });
  const course = { kind: "wait" } as const;
  for (const each of waiting.filter(({ metadata }) => metadata.deletionTimestamp === undefined)) {
    const told = { migration: each, course, state: undefined, failures: [], now };
    await write(each, migrationStatus(told), deps);
  }
}
