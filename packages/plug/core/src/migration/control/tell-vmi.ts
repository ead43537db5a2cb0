// SPDX-License-Identifier: Apache-2.0
// What is the VMI told of its migration? By these members, and by its labels, both nodes know what they are to it.
import {
  isVmiFinal,
  names,
  type MigrationState,
  type Pod,
  type VirtualMachineInstance,
} from "@patchbay/api";
import type { ToldMembers } from "./actions.ts";
import type { Course } from "./course.ts";
import { isPodOver, stateIn, type MigrationFacts } from "./facts.ts";
import { openMigration } from "../owner.ts";
import { targetAttachments } from "./target-attachments.ts";

/** Why a VMI has failed whose guest was in neither of its pods in the end. */
const GUEST_LOST = "GuestLost";

function podEntry(pod: Pod | undefined): Readonly<Record<string, string>> {
  const { uid } = pod?.metadata ?? {};
  const node = pod?.spec.nodeName;
  return uid === undefined || node === undefined ? {} : { [uid]: node };
}

/** Where a pod is. */
function placeOf(pod: Pod | undefined): { readonly node: string; readonly name: string } {
  return { node: pod?.spec.nodeName ?? "", name: pod?.metadata.name ?? "" };
}

function opened(facts: MigrationFacts): ToldMembers {
  const { guest, migration, targetPod, settings } = facts;
  if (targetPod === undefined || migration === undefined) return {};
  const [source, target] = [placeOf(guest?.pod), placeOf(targetPod)];
  const { policyName } = settings;
  return {
    migrationState: {
      migrationUid: migration.metadata.uid ?? "",
      sourceNode: source.node,
      sourcePod: source.name,
      targetNode: target.node,
      targetPod: target.name,
      migrationConfiguration: settings.configuration,
      ...(policyName === undefined ? {} : { migrationPolicyName: policyName }),
      targetAttachments: [...targetAttachments(facts, targetPod)],
    },
    activePods: { ...podEntry(guest?.pod), ...podEntry(targetPod) },
  };
}

/** While it is open: what the target's pod has, and that the source's has ended. */
function kept(facts: MigrationFacts, state: MigrationState): MigrationState {
  const { guest, targetPod, now } = facts;
  const isSourceOver = isPodOver(guest?.pod);
  return {
    ...state,
    ...(targetPod === undefined
      ? {}
      : { targetAttachments: [...targetAttachments(facts, targetPod)] }),
    ...(isSourceOver ? { sourceEndedTimestamp: state.sourceEndedTimestamp ?? now } : {}),
  };
}

/** What was only of use on the way. */
function closed(state: MigrationState, now: string): MigrationState {
  const told = Object.entries(state).filter(([member]) => member !== "targetAttachments");
  return { ...Object.fromEntries(told), completed: true, endTimestamp: now };
}

function arrived({ targetPod, now }: MigrationFacts, state: MigrationState): ToldMembers {
  const { targetNode = "", targetAttachments: attachments = [] } = state;
  return {
    migrationState: closed(state, now),
    nodeName: targetNode,
    activePods: podEntry(targetPod),
    attachments: attachments.length === 0 ? undefined : attachments,
    // It is where it was to leave no more.
    evacuationNodeName: undefined,
  };
}

function stayed({ guest, now }: MigrationFacts, state: MigrationState, why: string): ToldMembers {
  const { activePods = {} } = guest?.vmi.status ?? {};
  const own = guest?.pod?.metadata.uid;
  const left = Object.entries(activePods).filter(([uid, node]) =>
    own === undefined ? node === state.sourceNode : uid === own,
  );
  return {
    migrationState: { ...closed(state, now), failed: true, failureReason: why },
    activePods: Object.fromEntries(left),
  };
}

/** What ended with it has failed, however the pod that it had left ends. */
function lost(facts: MigrationFacts, state: MigrationState, why: string): ToldMembers {
  const { migrationState, ...members } = stayed(facts, state, why);
  const told = { ...members, migrationState: { ...migrationState, guestLost: true } };
  const isFinal = facts.guest !== undefined && isVmiFinal(facts.guest.vmi);
  return isFinal ? told : { ...told, phase: "Failed", reason: GUEST_LOST };
}

/** The members of the status as they are to be; none where nothing is told. */
export function toldMembers(facts: MigrationFacts, course: Course): ToldMembers {
  if (course.kind === "open") return opened(facts);
  const state = stateIn(facts);
  if (state === undefined) return {};
  if (course.kind === "succeed") return arrived(facts, state);
  if (course.kind === "fail") return stayed(facts, state, course.why);
  if (course.kind === "lose") return lost(facts, state, course.why);
  if (course.kind === "goOn") return { migrationState: kept(facts, state) };
  if (course.kind !== "abort") return {};
  const asked = { abortRequested: true, abortRequestedTimestamp: facts.now };
  return { migrationState: { ...kept(facts, state), ...asked } };
}

/** Labels of the VMI that are to be others, by which nodes choose the VMIs that they watch; null: it goes. */
export function toldLabels(vmi: VirtualMachineInstance): Readonly<Record<string, string | null>> {
  const { metadata, status } = vmi;
  const labels = metadata.labels ?? {};
  const target = openMigration(vmi)?.targetNode;
  const has = labels[names.MIGRATION_TARGET_NODE_LABEL];
  if (has === target) return {};
  const node = status?.nodeName;
  // The node that has the guest goes on to hear of it: no moment is between the two labels.
  const own = target === undefined && node !== undefined ? { [names.NODE_NAME_LABEL]: node } : {};
  return { ...own, [names.MIGRATION_TARGET_NODE_LABEL]: target ?? null };
}
