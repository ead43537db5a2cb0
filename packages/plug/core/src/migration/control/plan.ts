// SPDX-License-Identifier: Apache-2.0
// What virt-controller does next for the migrations of one VMI.
import {
  isPodFinished,
  names,
  printNetworks,
  type VirtualMachineInstanceMigration,
} from "@patchbay/api";
import { isEqual } from "../../equal.ts";
import { endGraceSeconds } from "../../plan/pod/launcher-pod.ts";
import { planPodNetworks } from "../../plan/pod/pod-networks.ts";
import { podNetworkElements } from "../../plan/vm/vmi.ts";
import type { MigrationAction, ToldMembers } from "./actions.ts";
import { courseOf, type Course } from "./course.ts";
import { stateIn, type MigrationFacts } from "./facts.ts";
import { targetPodOf } from "./target-pod.ts";
import { toldMembers } from "./tell-vmi.ts";
import { travelView } from "./travellers.ts";

type Migration = VirtualMachineInstanceMigration;

/** Finished ones of one VMI that stay. Source: KubeVirt pkg/virt-controller/watch/migration. */
const FINISHED_MAX = 5;

function isMarked({ metadata, spec }: Migration): boolean {
  const label = metadata.labels?.[names.MIGRATION_VMI_LABEL];
  return (
    metadata.finalizers?.includes(names.MIGRATION_FINALIZER) === true &&
    label === (spec.vmiName ?? "")
  );
}

function isKept({ metadata }: Migration): boolean {
  return metadata.finalizers?.includes(names.MIGRATION_FINALIZER) === true;
}

function isGoing({ metadata }: Migration): boolean {
  return metadata.deletionTimestamp !== undefined;
}

/** The target's pod asks for what the guest has at that moment. */
function planNetworks(facts: MigrationFacts): readonly MigrationAction[] {
  const { guest, targetPod: pod, targetAbsences: absences } = facts;
  if (guest === undefined || pod === undefined) return [];
  if (isPodFinished(pod) || pod.metadata.deletionTimestamp !== undefined) return [];
  const owner = { vmi: travelView(guest.vmi), bindings: guest.network.bindings, absences };
  const current = podNetworkElements(pod);
  const elements = planPodNetworks(owner, current);
  if (isEqual(current, elements)) return [];
  return [{ kind: "patchTargetNetworks", pod, to: printNetworks(elements) }];
}

function planWords(facts: MigrationFacts, course: Course): readonly MigrationAction[] {
  const members = toldMembers(facts, course);
  const { status = {} } = facts.guest?.vmi ?? {};
  const current = Object.fromEntries(
    Object.keys(members).map((key) => [key, status[key as keyof ToldMembers]]),
  );
  return isEqual(current, members) ? [] : [{ kind: "tellMigration", members }];
}

/** After a start the guest's NICs are on their way: the pod stays as it is. */
function mayChangeTarget(facts: MigrationFacts, { kind }: Course): boolean {
  const isOnTheWay = stateIn(facts)?.startTimestamp !== undefined;
  return (kind === "schedule" || kind === "open" || kind === "goOn") && !isOnTheWay;
}

function planCourse(facts: MigrationFacts, course: Course): readonly MigrationAction[] {
  const { guest, migration } = facts;
  if (guest === undefined) return [];
  if (course.kind === "begin") {
    if (migration === undefined) return [];
    return [{ kind: "createTargetPod", pod: targetPodOf(guest, migration, facts.cpuLabels) }];
  }
  return [
    ...(mayChangeTarget(facts, course) ? planNetworks(facts) : []),
    ...planWords(facts, course),
    { kind: "labelMigration" },
  ];
}

function planLeftPods({ leftPods, guest }: MigrationFacts): readonly MigrationAction[] {
  if (guest === undefined) return [];
  const graceSeconds = endGraceSeconds(guest.vmi);
  return leftPods
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

/** What is over goes when it is told to, and nothing of it is left; of the others five stay. */
function planFinished({ finished, leftPods }: MigrationFacts): readonly MigrationAction[] {
  const going = leftPods.length > 0 ? [] : finished.filter((each) => isGoing(each) && isKept(each));
  const staying = finished.filter((each) => !isGoing(each));
  const surplus = staying.slice(0, Math.max(0, staying.length - FINISHED_MAX));
  return [
    ...going.map(release),
    ...surplus.map((migration) => ({ kind: "deleteMigration" as const, migration })),
  ];
}

/** Before anything is made for it; of what is deleted at once nothing is made. */
function needsMark({ migration }: MigrationFacts): boolean {
  return migration !== undefined && !isMarked(migration) && !isGoing(migration);
}

/** What becomes of the migration that is worked on; until it is kept it waits. */
export function nextCourse(facts: MigrationFacts): Course {
  return needsMark(facts) ? { kind: "wait" } : courseOf(facts);
}

/** The next steps, in order. */
export function planMigrations(facts: MigrationFacts): readonly MigrationAction[] {
  const { migration, waiting } = facts;
  const around = [
    ...waiting.filter((each) => isGoing(each) && isKept(each)).map(release),
    ...planFinished(facts),
    ...planLeftPods(facts),
  ];
  if (migration !== undefined && needsMark(facts)) {
    return [{ kind: "markMigration", migration }, ...around];
  }
  return [...planCourse(facts, nextCourse(facts)), ...around];
}
