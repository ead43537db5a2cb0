// SPDX-License-Identifier: Apache-2.0
// The VMI's status and labels during a migration. Both nodes read their role from them.
import { isVmiFinal, names, type MigrationState, type VirtualMachineInstance } from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";
import type { VmiMigrationFields } from "./actions.ts";
import type { Decision } from "./decision.ts";
import { isPodOver, findMigrationState, type MigrationFacts } from "./facts.ts";
import { openMigration } from "../owner.ts";
import { targetAttachments } from "./target-nics.ts";

/** Reason of a VMI whose guest was lost in a migration. */
const GUEST_LOST = "GuestLost";

function podEntry(pod: Pod | undefined): Readonly<Record<string, string>> {
  const { uid } = pod?.metadata ?? {};
  const node = pod?.spec.nodeName;
  return uid === undefined || node === undefined ? {} : { [uid]: node };
}

function locatePod(pod: Pod | undefined): { readonly node: string; readonly name: string } {
  return { node: pod?.spec.nodeName ?? "", name: pod?.metadata.name ?? "" };
}

function openFields(facts: MigrationFacts): VmiMigrationFields {
  const { guest, migration, targetPod, settings } = facts;
  if (targetPod === undefined || migration === undefined) return {};
  const [source, target] = [locatePod(guest?.pod), locatePod(targetPod)];
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

function updatedState(facts: MigrationFacts, state: MigrationState): MigrationState {
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

function closedState(state: MigrationState, now: string): MigrationState {
  const reported = Object.entries(state).filter(([member]) => member !== "targetAttachments");
  return { ...Object.fromEntries(reported), completed: true, endTimestamp: now };
}

function succeededFields(
  { targetPod, now }: MigrationFacts,
  state: MigrationState,
): VmiMigrationFields {
  const { targetNode = "", targetAttachments: attachments = [] } = state;
  return {
    migrationState: closedState(state, now),
    nodeName: targetNode,
    activePods: podEntry(targetPod),
    attachments: attachments.length === 0 ? undefined : attachments,
    // The guest has left the node from which its eviction was requested.
    evacuationNodeName: undefined,
  };
}

function failedFields(
  { guest, now }: MigrationFacts,
  state: MigrationState,
  why: string,
): VmiMigrationFields {
  const { activePods = {} } = guest?.vmi.status ?? {};
  const own = guest?.pod?.metadata.uid;
  const remaining = Object.entries(activePods).filter(([uid, node]) =>
    own === undefined ? node === state.sourceNode : uid === own,
  );
  return {
    migrationState: { ...closedState(state, now), failed: true, failureReason: why },
    activePods: Object.fromEntries(remaining),
  };
}

/** Builds the fields of a VMI that fails because its guest was lost. */
function lostFields(facts: MigrationFacts, state: MigrationState, why: string): VmiMigrationFields {
  const { migrationState, ...members } = failedFields(facts, state, why);
  const reported = { ...members, migrationState: { ...migrationState, guestLost: true } };
  const isFinal = facts.guest !== undefined && isVmiFinal(facts.guest.vmi);
  return isFinal ? reported : { ...reported, phase: "Failed", reason: GUEST_LOST };
}

export function buildVmiFields(facts: MigrationFacts, decision: Decision): VmiMigrationFields {
  if (decision.kind === "open") return openFields(facts);
  const state = findMigrationState(facts);
  if (state === undefined) return {};
  if (decision.kind === "succeed") return succeededFields(facts, state);
  if (decision.kind === "fail") return failedFields(facts, state, decision.why);
  if (decision.kind === "lose") return lostFields(facts, state, decision.why);
  if (decision.kind === "goOn") return { migrationState: updatedState(facts, state) };
  if (decision.kind !== "abort") return {};
  const requested = { abortRequested: true, abortRequestedTimestamp: facts.now };
  return { migrationState: { ...updatedState(facts, state), ...requested } };
}

/** Returns labels to change, by which each node selects the VMIs that it watches. Null removes a label. */
export function labelChanges(vmi: VirtualMachineInstance): Readonly<Record<string, string | null>> {
  const { metadata, status } = vmi;
  const labels = metadata.labels ?? {};
  const target = openMigration(vmi)?.targetNode;
  const has = labels[names.MIGRATION_TARGET_NODE_LABEL];
  if (has === target) return {};
  const node = status?.nodeName;
  // Set the owner's label in the same patch, so that its watch does not lose the VMI in between.
  const own = target === undefined && node !== undefined ? { [names.NODE_NAME_LABEL]: node } : {};
  return { ...own, [names.MIGRATION_TARGET_NODE_LABEL]: target ?? null };
}
