// SPDX-License-Identifier: Apache-2.0
// What becomes of a migration now? Pure. Before the guest is on its way it can be ended at once; from then on only the source's word,
// or the end of its pod, says that the guest has stayed.
import { isVmiFinal, type MigrationState, type Pod } from "@patchbay/api";
import { podFailure } from "../../status/sync-error.ts";
import { isPodOver, stateIn, type MigrationFacts } from "./facts.ts";
import { passedDeadline } from "./deadlines.ts";
import { heldMessage } from "./held.ts";
import { otherAddresses } from "./target-attachments.ts";
import { migrationProblem } from "../requests.ts";
import { hasMigrationBegun } from "./turns.ts";

/** The next step of a migration. */
export type Course =
  /** Its turn has not come, or its guest does not run yet. */
  | { readonly kind: "wait" }
  /** Its target's pod is to be made. */
  | { readonly kind: "begin" }
  /** The pod is not ready. */
  | { readonly kind: "schedule" }
  /** The pod is ready: both nodes are told. */
  | { readonly kind: "open" }
  | { readonly kind: "goOn" }
  /** The source is asked to end it. */
  | { readonly kind: "abort"; readonly why: string }
  | { readonly kind: "succeed" }
  | { readonly kind: "fail"; readonly why: string }
  /** It has failed, and the guest with it: it is in neither pod. */
  | { readonly kind: "lose"; readonly why: string }
  /** It is closed in the VMI; undefined of a migration whose object is gone. */
  | { readonly kind: "closed" };

/** Source: KubeVirt pkg/virt-controller/watch/migration. */
const CANCELLED = "Migration failed due to being canceled";

const fail = (why: string): Course => ({ kind: "fail", why });
const lose = (why: string): Course => ({ kind: "lose", why });

function sayPod({ metadata }: Pod): string {
  return `target pod ${metadata.name}`;
}

/** How the target's pod, or its node, was lost; undefined: both are there. */
function targetProblem({ targetPod, targetLoss }: MigrationFacts): string | undefined {
  if (targetPod === undefined) return "the target pod is gone";
  const told = podFailure(targetPod);
  const why = told === undefined ? "" : `: ${told.reason}: ${told.message}`;
  if (isPodOver(targetPod)) return `${sayPod(targetPod)} has ended before the guest came${why}`;
  if (targetPod.metadata.deletionTimestamp !== undefined) {
    return `${sayPod(targetPod)} is being deleted`;
  }
  if (targetLoss === undefined) return undefined;
  return `node ${targetPod.spec.nodeName ?? ""}, to which the guest was to go, does not answer`;
}

/** Why it is to end, whatever the target does; undefined: nobody wants that. */
function reasonToEnd({ guest, migration }: MigrationFacts): string | undefined {
  if (migration === undefined || migration.metadata.deletionTimestamp !== undefined) {
    return CANCELLED;
  }
  if (guest?.vmi.metadata.deletionTimestamp === undefined) return undefined;
  return `VMI ${guest.vmi.metadata.name} is being stopped`;
}

function isReady({ spec, status }: Pod): boolean {
  return spec.nodeName !== undefined && status?.phase === "Running";
}

/** Networks that the target's node has said it cannot make NICs of. */
function absenceOf({ targetAbsences }: MigrationFacts): string | undefined {
  const [first] = [...targetAbsences.values()];
  return first?.message;
}

function courseWithPod(facts: MigrationFacts, pod: Pod): Course {
  const problem = targetProblem(facts) ?? absenceOf(facts) ?? otherAddresses(facts);
  if (problem !== undefined) return fail(problem);
  const late = passedDeadline(facts);
  if (late !== undefined) return fail(late.why);
  return isReady(pod) && facts.guest?.pod !== undefined ? { kind: "open" } : { kind: "schedule" };
}

/** One guest in one pod: what an earlier migration has left is gone first. */
function isAlone({ guest, leftPods }: MigrationFacts): boolean {
  return leftPods.length === 0 && guest?.pod !== undefined && guest.nodeLoss === undefined;
}

function courseOfFirst(facts: MigrationFacts): Course {
  const { guest, unfit, mayBegin } = facts;
  if (guest?.vmi.status?.phase !== "Running") return { kind: "wait" };
  const { namespace = "", name } = guest.vmi.metadata;
  const problem = migrationProblem(guest.vmi, { namespace, name }) ?? unfit;
  if (problem !== undefined) return fail(problem);
  return mayBegin && isAlone(facts) ? { kind: "begin" } : { kind: "wait" };
}

/** Before the VMI tells of it. */
function courseBefore(facts: MigrationFacts): Course {
  const { guest, migration, targetPod, key } = facts;
  if (migration === undefined) return { kind: "closed" };
  if (guest === undefined) return fail(`the VMI "${key}" does not exist`);
  if (isVmiFinal(guest.vmi)) return fail("Cannot migrate VMI in finalized state.");
  const why = reasonToEnd(facts);
  if (why !== undefined) return fail(why);
  if (targetPod !== undefined) return courseWithPod(facts, targetPod);
  return hasMigrationBegun(migration) ? fail("the target pod is gone") : courseOfFirst(facts);
}

/** Both nodes know of it, and nothing of the guest is on its way. */
function courseOfReady(facts: MigrationFacts): Course {
  const why =
    reasonToEnd(facts) ??
    targetProblem(facts) ??
    otherAddresses(facts) ??
    passedDeadline(facts)?.why;
  if (why !== undefined) return fail(why);
  return isPodOver(facts.guest?.pod) ? fail("the guest has ended") : { kind: "goOn" };
}

/** Nobody has told where the guest is, and the pod that it left is no more. */
function courseWithoutSource(facts: MigrationFacts): Course | undefined {
  if (!isPodOver(facts.guest?.pod)) return undefined;
  if (isPodOver(facts.targetPod)) return lose("both pods of the guest have ended");
  const late = passedDeadline(facts, "arrival");
  return late === undefined ? { kind: "goOn" } : lose(late.why);
}

/** By its source's word the guest is at the target alone, where it may stand still. */
function courseOfLeft(facts: MigrationFacts, state: MigrationState): Course {
  const { guest, targetPod } = facts;
  if (isPodOver(targetPod)) {
    const why = targetProblem(facts) ?? "the target pod has ended";
    return lose(`the guest had left its node, and is lost at its target: ${why}`);
  }
  const { deletionTimestamp, name = "" } = guest?.vmi.metadata ?? {};
  if (deletionTimestamp === undefined) return { kind: "goOn" };
  if (heldMessage(state) !== undefined) return lose(`VMI ${name} is being stopped`);
  const silent = passedDeadline(facts, "word");
  return silent === undefined ? { kind: "goOn" } : lose(silent.why);
}

/** The guest may be on either node. */
function courseOnTheWay(facts: MigrationFacts, state: MigrationState): Course {
  const alone = courseWithoutSource(facts);
  if (alone !== undefined) return alone;
  const why = reasonToEnd(facts) ?? targetProblem(facts) ?? passedDeadline(facts)?.why;
  if (why === undefined) return { kind: "goOn" };
  if (state.abortRequested !== true) return { kind: "abort", why };
  if (state.sourceNodeDomainLeft === true) return courseOfLeft(facts, state);
  // Without its target's pod the call can no longer end well.
  const silent = passedDeadline(facts, "word");
  return silent === undefined ? { kind: "goOn" } : fail(silent.why);
}

/** What is to be done about the migration that is worked on. */
export function courseOf(facts: MigrationFacts): Course {
  const state = stateIn(facts);
  if (state === undefined) return courseBefore(facts);
  if (state.completed === true) return { kind: "closed" };
  // The target says that the guest runs there: it is there, whatever else was said.
  if (state.targetNodeDomainReadyTimestamp !== undefined) return { kind: "succeed" };
  if (state.failed === true)
    return fail(state.failureReason ?? "source node reported migration failed");
  if (state.startTimestamp === undefined) return courseOfReady(facts);
  return courseOnTheWay(facts, state);
}
