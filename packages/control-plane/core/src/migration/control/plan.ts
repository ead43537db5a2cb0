// SPDX-License-Identifier: Apache-2.0
import { names, type VirtualMachineInstanceMigration } from "@patchbay/api";
import { printNetworks } from "@patchbay/api/annotations";
import { isPodFinished } from "@patchbay/api/kubernetes";
import { isEqual } from "@patchbay/base";
import { endGraceSeconds } from "../../vm/pod/launcher-pod.ts";
import { planPodNetworks } from "../../vm/pod/pod-networks.ts";
import { podNetworkElements } from "../../vm/vmi.ts";
import { decide, type Decision } from "./decision.ts";
import { findMigrationState, type MigrationFacts } from "./facts.ts";
import { buildTargetPod } from "./target-pod.ts";
import { buildVmiFields } from "./vmi-status.ts";
import type { MigrationAction, VmiMigrationFields } from "./actions.ts";
import { targetPodView } from "./target-nics.ts";

type Migration = VirtualMachineInstanceMigration;

/** Number of finished migrations of one VMI to retain. Source: KubeVirt pkg/virt-controller/watch/migration. */
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

/** Plans to update the target pod's annotation when the guest's NICs changed. */
function planNetworks(facts: MigrationFacts): readonly MigrationAction[] {
  const { guest, targetPod: pod, targetAbsences: absences } = facts;
  if (guest === undefined || pod === undefined) return [];
  if (isPodFinished(pod) || pod.metadata.deletionTimestamp !== undefined) return [];
  const owner = { vmi: targetPodView(guest.vmi), bindings: guest.network.bindings, absences };
  const current = podNetworkElements(pod);
  const elements = planPodNetworks(owner, current);
  if (isEqual(current, elements)) return [];
  return [{ kind: "patchTargetNetworks", pod, to: printNetworks(elements) }];
}

function planVmiStatus(facts: MigrationFacts, decision: Decision): readonly MigrationAction[] {
  const members = buildVmiFields(facts, decision);
  const { status = {} } = facts.guest?.vmi ?? {};
  const current = Object.fromEntries(
    Object.keys(members).map((key) => [key, status[key as keyof VmiMigrationFields]]),
  );
  return isEqual(current, members) ? [] : [{ kind: "tellMigration", members }];
}

/** Whether the target pod's annotation may change: only before its NICs start to migrate with the guest. */
function mayChangeTarget(facts: MigrationFacts, { kind }: Decision): boolean {
  const isMigrating = findMigrationState(facts)?.startTimestamp !== undefined;
  return (kind === "schedule" || kind === "open" || kind === "goOn") && !isMigrating;
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
  const graceSeconds = endGraceSeconds(guest.vmi);
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

function release(migration: Migration): MigrationAction {
  return { kind: "releaseMigration", migration };
}

/** Releases deleted migrations after their pods were deleted. Of the others, deletes all but the latest. */
function planFinished({ finished, leftoverPods }: MigrationFacts): readonly MigrationAction[] {
  const released =
    leftoverPods.length > 0 ? [] : finished.filter((each) => isDeleted(each) && hasFinalizer(each));
  const retained = finished.filter((each) => !isDeleted(each));
  const surplus = retained.slice(0, Math.max(0, retained.length - FINISHED_MAX));
  return [
    ...released.map(release),
    ...surplus.map((migration) => ({ kind: "deleteMigration" as const, migration })),
  ];
}

/** Whether the migration still needs its finalizer and label, which are written first. A deleted migration gets neither. */
function needsMark({ migration }: MigrationFacts): boolean {
  return migration !== undefined && !isMarked(migration) && !isDeleted(migration);
}

/** Decides about the current migration, which first waits for its finalizer and label. */
export function decideNext(facts: MigrationFacts): Decision {
  return needsMark(facts) ? { kind: "wait" } : decide(facts);
}

export function planMigrations(facts: MigrationFacts): readonly MigrationAction[] {
  const { migration, waiting } = facts;
  const around = [
    ...waiting.filter((each) => isDeleted(each) && hasFinalizer(each)).map(release),
    ...planFinished(facts),
    ...planLeftoverPods(facts),
  ];
  if (migration !== undefined && needsMark(facts)) {
    return [{ kind: "markMigration", migration }, ...around];
  }
  return [...planDecision(facts, decideNext(facts)), ...around];
}
