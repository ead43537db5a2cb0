// SPDX-License-Identifier: Apache-2.0
import { names, type VirtualMachineInstanceMigration } from "@patchbay/api";
import { printNetworks } from "@patchbay/api/annotations";
import { isPodFinished } from "@patchbay/api/kubernetes";
import { isEqual } from "@patchbay/base";
import { computeEndGraceSeconds } from "../../vm/pod/launcher-pod.ts";
import { planPodNetworks } from "../../vm/pod/pod-networks.ts";
import { readPodNetworkElements } from "../../vm/vmi.ts";
import { decide, type Decision } from "./decision.ts";
import { findMigrationState, type MigrationFacts } from "./facts.ts";
import { buildTargetPod } from "./target-pod.ts";
import { buildVmiFields } from "./vmi-status.ts";
import type { MigrationAction, VmiMigrationFields } from "./actions.ts";
import { buildTargetPodView, findSourceClaims } from "./target-nics.ts";

type Migration = VirtualMachineInstanceMigration;

/** Number of finished migrations of a VMI to retain. Source: KubeVirt pkg/virt-controller/watch/migration. */
const FINISHED_MAX = 5;

function isMarked({ metadata, spec }: Migration): boolean {
  const label = metadata.labels?.[names.MIGRATION_VMI_LABEL];
  return (
    metadata.finalizers?.includes(names.MIGRATION_FINALIZER) === true &&
    label === (spec.vmiName ?? "")
  );
}

function hasFinalizer({ metadata }: Migration): boolean {
  return metadata.finalizers?.includes(names.MIGRATION_FINALIZER) === true;
}

function isDeleted({ metadata }: Migration): boolean {
  return metadata.deletionTimestamp !== undefined;
}

function planNetworks(facts: MigrationFacts): readonly MigrationAction[] {
  const { guest, targetPod: pod, targetAbsences: absences } = facts;
  if (guest === undefined || pod === undefined) return [];
  if (isPodFinished(pod) || pod.metadata.deletionTimestamp !== undefined) return [];
  const vmi = buildTargetPodView(guest.vmi, guest.definitions);
  const ipamClaims = findSourceClaims(guest);
  const owner = { vmi, bindings: guest.network.bindings, absences, ipamClaims };
  const currentElements = readPodNetworkElements(pod);
  const elements = planPodNetworks(owner, currentElements);
  if (isEqual(currentElements, elements)) return [];
  return [{ kind: "patchTargetNetworks", pod, value: printNetworks(elements) }];
}

function planVmiStatus(facts: MigrationFacts, decision: Decision): readonly MigrationAction[] {
  const fields = buildVmiFields(facts, decision);
  const { status = {} } = facts.guest?.vmi ?? {};
  const currentFields = Object.fromEntries(
    Object.keys(fields).map((key) => [key, status[key as keyof VmiMigrationFields]]),
  );
  return isEqual(currentFields, fields) ? [] : [{ kind: "patchVmiMigration", fields }];
}

/** Returns whether the target pod's networks annotation may change. It must not change once the guest has started to migrate. */
function mayChangeTarget(facts: MigrationFacts, { kind }: Decision): boolean {
  const isMigrating = findMigrationState(facts)?.startTimestamp !== undefined;
  return (kind === "schedule" || kind === "open" || kind === "continue") && !isMigrating;
}

function planDecision(facts: MigrationFacts, decision: Decision): readonly MigrationAction[] {
  const { guest, migration } = facts;
  if (guest === undefined) return [];
  if (decision.kind === "begin") {
    if (migration === undefined) return [];
    return [{ kind: "createTargetPod", pod: buildTargetPod(guest, migration, facts.cpuLabels) }];
  }
  return [
    ...(mayChangeTarget(facts, decision) ? planNetworks(facts) : []),
    ...planVmiStatus(facts, decision),
    { kind: "labelMigration" },
  ];
}

function planLeftoverPods({ leftoverPods, guest }: MigrationFacts): readonly MigrationAction[] {
  if (guest === undefined) return [];
  const graceSeconds = computeEndGraceSeconds(guest.vmi);
  return leftoverPods
    .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
    .map(({ metadata: { namespace = "", name, uid = "" } }) => ({
      kind: "deleteLauncher" as const,
      namespace,
      name,
      uid,
      graceSeconds,
    }));
}

function planRelease(migration: Migration): MigrationAction {
  return { kind: "releaseMigration", migration };
}

/** Plans to remove the finalizer of deleted migrations if no leftover pods exist, and to delete the oldest beyond {@link FINISHED_MAX}. */
function planFinished({ finished, leftoverPods }: MigrationFacts): readonly MigrationAction[] {
  const releasable =
    leftoverPods.length > 0
      ? []
      : finished.filter((candidate) => isDeleted(candidate) && hasFinalizer(candidate));
  const retainedMigrations = finished.filter((candidate) => !isDeleted(candidate));
  const excessMigrations = retainedMigrations.slice(
    0,
    Math.max(0, retainedMigrations.length - FINISHED_MAX),
  );
  return [
    ...releasable.map(planRelease),
    ...excessMigrations.map((migration) => ({ kind: "deleteMigration" as const, migration })),
  ];
}

function needsMark({ migration }: MigrationFacts): boolean {
  return migration !== undefined && !isMarked(migration) && !isDeleted(migration);
}

/** Decides the next step of the current migration. A migration without finalizer and label waits until they are written. */
export function decideNext(facts: MigrationFacts): Decision {
  return needsMark(facts) ? { kind: "wait" } : decide(facts);
}

export function planMigrations(facts: MigrationFacts): readonly MigrationAction[] {
  const { migration, waiting } = facts;
  const surroundingActions = [
    ...waiting
      .filter((waitingMigration) => isDeleted(waitingMigration) && hasFinalizer(waitingMigration))
      .map(planRelease),
    ...planFinished(facts),
    ...planLeftoverPods(facts),
  ];
  if (migration !== undefined && needsMark(facts)) {
    return [{ kind: "markMigration", migration }, ...surroundingActions];
  }
  return [...planDecision(facts, decideNext(facts)), ...surroundingActions];
}
