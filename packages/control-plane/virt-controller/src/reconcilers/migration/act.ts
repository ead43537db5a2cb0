// SPDX-License-Identifier: Apache-2.0
// Execution of the plan for a VMI's migrations. Each step is idempotent.
import {
  names,
  PODS,
  VIRTUAL_MACHINE_INSTANCE_MIGRATIONS,
  VIRTUAL_MACHINE_INSTANCES,
  type VirtualMachineInstance,
  type VirtualMachineInstanceMigration,
} from "@patchbay/api";
import type { JsonPatchOperation } from "@patchbay/api/json";
import {
  listLauncherNames,
  labelChanges,
  type MigrationAction,
  type MigrationFacts,
} from "@patchbay/core/migration";
import { statusPatch, versionTest } from "@patchbay/core/status";
import { keyOf, printKey, runObjectSteps, type ObjectStepsResult } from "@patchbay/kube";
import type { Patch } from "@patchbay/core/interfaces";
import type { Deps } from "../../deps.ts";
import { createLauncher, patchAnnotation } from "../vmi/index.ts";

type Migration = VirtualMachineInstanceMigration;
const MIGRATIONS = VIRTUAL_MACHINE_INSTANCE_MIGRATIONS;

type StateMembers = Extract<MigrationAction, { kind: "patchVmiMigration" }>["fields"];

async function patchMigration(migration: Migration, patch: Patch, deps: Deps): Promise<void> {
  deps.mutationCache.note(await deps.store.patch(MIGRATIONS, keyOf(migration), patch));
}

function buildFinalizers(migration: Migration, isPresent: boolean): readonly string[] {
  const { finalizers = [] } = migration.metadata;
  const otherFinalizers = finalizers.filter((finalizer) => finalizer !== names.MIGRATION_FINALIZER);
  return isPresent ? [...otherFinalizers, names.MIGRATION_FINALIZER] : otherFinalizers;
}

function buildFinalizerOperations(
  migration: Migration,
  isPresent: boolean,
): readonly JsonPatchOperation[] {
  const value = buildFinalizers(migration, isPresent);
  return [versionTest(migration), { op: "add", path: "/metadata/finalizers", value }];
}

async function addFinalizer(migration: Migration, deps: Deps): Promise<void> {
  const setLabels = { [names.MIGRATION_VMI_LABEL]: migration.spec.vmiName ?? "" };
  const value = { ...migration.metadata.labels, ...setLabels };
  const operations = [
    ...buildFinalizerOperations(migration, true),
    { op: "add", path: "/metadata/labels", value } as const,
  ];
  await patchMigration(migration, { type: "json", operations }, deps);
}

async function removeFinalizer(migration: Migration, deps: Deps): Promise<void> {
  const patch = { type: "json", operations: buildFinalizerOperations(migration, false) } as const;
  await patchMigration(migration, patch, deps);
}

/** Returns the newest version of the VMI that this process knows, because an earlier step may have written the VMI. */
function findNewestVmi({ guest }: MigrationFacts, deps: Deps): VirtualMachineInstance | undefined {
  return guest && deps.mutationCache.newest(guest.vmi);
}

/** Writes the migration state of the VMI. Fails if the VMI has changed after planning. */
async function writeVmi(members: StateMembers, facts: MigrationFacts, deps: Deps): Promise<void> {
  const vmi = facts.guest?.vmi;
  if (vmi === undefined) return;
  const operations = statusPatch(vmi, members);
  const patch = { type: "json", operations } as const;
  const options = { subresource: "status" } as const;
  const key = keyOf(vmi);
  deps.mutationCache.note(await deps.store.patch(VIRTUAL_MACHINE_INSTANCES, key, patch, options));
  deps.log.info("wrote the migration state of a vmi", { vmi: printKey(key) });
}

async function setLabels(facts: MigrationFacts, deps: Deps): Promise<void> {
  const vmi = findNewestVmi(facts, deps);
  const labels = vmi === undefined ? {} : labelChanges(vmi);
  if (vmi === undefined || Object.keys(labels).length === 0) return;
  const patch = { type: "merge", fields: { metadata: { labels } } } as const;
  deps.mutationCache.note(await deps.store.patch(VIRTUAL_MACHINE_INSTANCES, keyOf(vmi), patch));
}

async function changeTarget(
  action: Extract<MigrationAction, { kind: "createTargetPod" | "patchTargetNetworks" }>,
  { guest }: MigrationFacts,
  deps: Deps,
): Promise<void> {
  if (action.kind === "patchTargetNetworks") {
    const annotation = names.NETWORKS_ANNOTATION;
    await patchAnnotation(action.pod, { annotation, value: action.value }, deps);
  } else if (guest !== undefined) await createLauncher(action.pod, guest.vmi, deps);
}

/**
 * Deletes the pod unless it is the guest's launcher pod or the target pod of an unfinished migration. Reads the VMI from the API server
 * for this check, because the cached VMI may be outdated.
 */
async function deleteLauncher(
  action: Extract<MigrationAction, { kind: "deleteLauncher" }>,
  { guest }: MigrationFacts,
  deps: Deps,
): Promise<void> {
  const { namespace, name, uid, graceSeconds: gracePeriodSeconds } = action;
  const vmi = guest && (await deps.store.find(VIRTUAL_MACHINE_INSTANCES, keyOf(guest.vmi)));
  if (vmi !== undefined && listLauncherNames(vmi).includes(name)) return;
  await deps.store.delete(PODS, { namespace, name }, { uid, gracePeriodSeconds });
  deps.log.info("deleted an unused launcher pod", { pod: `${namespace}/${name}` });
}

async function performOne(
  action: MigrationAction,
  facts: MigrationFacts,
  deps: Deps,
): Promise<void> {
  switch (action.kind) {
    case "markMigration":
      await addFinalizer(action.migration, deps);
      return;
    case "createTargetPod":
    case "patchTargetNetworks":
      await changeTarget(action, facts, deps);
      return;
    case "patchVmiMigration":
      await writeVmi(action.fields, facts, deps);
      return;
    case "labelMigration":
      await setLabels(facts, deps);
      return;
    case "deleteLauncher":
      await deleteLauncher(action, facts, deps);
      return;
    case "releaseMigration":
      await removeFinalizer(action.migration, deps);
      return;
    case "deleteMigration": {
      const { uid = "" } = action.migration.metadata;
      await deps.store.delete(MIGRATIONS, keyOf(action.migration), { uid });
    }
  }
}

/** Runs the steps. A new generation of the VMI resets the backoff of failed steps, because the new spec may have fixed the cause. */
export function actMigrations(
  plan: readonly MigrationAction[],
  facts: MigrationFacts,
  deps: Deps,
): Promise<ObjectStepsResult> {
  const { migration, finished, waiting, guest } = facts;
  const object = migration ?? finished[0] ?? waiting[0] ?? guest?.vmi;
  if (object === undefined)
    return Promise.resolve({ failures: [], retryInMs: undefined, thrown: [] });
  const perform = (action: MigrationAction): Promise<void> => performOne(action, facts, deps);
  const inputs = String(guest?.vmi.metadata.generation);
  return runObjectSteps({ object, plan, inputs, perform }, deps);
}
