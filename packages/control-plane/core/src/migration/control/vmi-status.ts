// SPDX-License-Identifier: Apache-2.0
// The VMI's status and labels during a migration, from which both nodes read their roles.
import { isVmiFinal, names, type MigrationState, type VirtualMachineInstance } from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";
import type { VmiMigrationFields } from "./actions.ts";
import type { Decision } from "./decision.ts";
import { hasPodEnded, findMigrationState, type MigrationFacts } from "./facts.ts";
import { openMigration } from "../owner.ts";
import { targetAttachments } from "./target-nics.ts";

const GUEST_LOST = "GuestLost";

function buildPodEntry(pod: Pod | undefined): Readonly<Record<string, string>> {
  const { uid } = pod?.metadata ?? {};
  const node = pod?.spec.nodeName;
  return uid === undefined || node === undefined ? {} : { [uid]: node };
}

function locatePod(pod: Pod | undefined): { readonly node: string; readonly name: string } {
  return { node: pod?.spec.nodeName ?? "", name: pod?.metadata.name ?? "" };
}

function buildOpenFields(facts: MigrationFacts): VmiMigrationFields {
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
    activePods: { ...buildPodEntry(guest?.pod), ...buildPodEntry(targetPod) },
  };
}

function updatedState(facts: MigrationFacts, state: MigrationState): MigrationState {
  const { guest, targetPod, now } = facts;
  const hasSourcePodEnded = hasPodEnded(guest?.pod);
  return {
    ...state,
    ...(targetPod === undefined
      ? {}
      : { targetAttachments: [...targetAttachments(facts, targetPod)] }),
    ...(hasSourcePodEnded ? { sourceEndedTimestamp: state.sourceEndedTimestamp ?? now } : {}),
  };
}

function buildClosedState(state: MigrationState, now: string): MigrationState {
  const stateFields = Object.entries(state).filter(([member]) => member !== "targetAttachments");
  return { ...Object.fromEntries(stateFields), completed: true, endTimestamp: now };
}

function buildSucceededFields(
  { targetPod, now }: MigrationFacts,
  state: MigrationState,
): VmiMigrationFields {
  const { targetNode = "", targetAttachments: attachments = [] } = state;
  return {
    migrationState: buildClosedState(state, now),
    nodeName: targetNode,
    activePods: buildPodEntry(targetPod),
    attachments: attachments.length === 0 ? undefined : attachments,
    // The evacuation is complete, because the guest has left the source node.
    evacuationNodeName: undefined,
    drainedNodeName: undefined,
  };
}

function buildFailedFields(
  { guest, now }: MigrationFacts,
  state: MigrationState,
  why: string,
): VmiMigrationFields {
  const { activePods = {} } = guest?.vmi.status ?? {};
  const sourceUid = guest?.pod?.metadata.uid;
  const remaining = Object.entries(activePods).filter(([uid, node]) =>
    sourceUid === undefined ? node === state.sourceNode : uid === sourceUid,
  );
  return {
    migrationState: { ...buildClosedState(state, now), failed: true, failureReason: why },
    activePods: Object.fromEntries(remaining),
  };
}

function buildLostFields(
  facts: MigrationFacts,
  state: MigrationState,
  why: string,
): VmiMigrationFields {
  const { migrationState, ...members } = buildFailedFields(facts, state, why);
  const lostState = { ...members, migrationState: { ...migrationState, guestLost: true } };
  const isFinal = facts.guest !== undefined && isVmiFinal(facts.guest.vmi);
  return isFinal ? lostState : { ...lostState, phase: "Failed", reason: GUEST_LOST };
}

export function buildVmiFields(facts: MigrationFacts, decision: Decision): VmiMigrationFields {
  if (decision.kind === "open") return buildOpenFields(facts);
  const state = findMigrationState(facts);
  if (state === undefined) return {};
  if (decision.kind === "succeed") return buildSucceededFields(facts, state);
  if (decision.kind === "fail") return buildFailedFields(facts, state, decision.why);
  if (decision.kind === "failWithLostGuest") return buildLostFields(facts, state, decision.why);
  if (decision.kind === "continue") return { migrationState: updatedState(facts, state) };
  if (decision.kind !== "abort") return {};
  const abortFields = { abortRequested: true, abortRequestedTimestamp: facts.now };
  return { migrationState: { ...updatedState(facts, state), ...abortFields } };
}

/** Returns changes to the labels by which each node watches its VMIs. The value null removes a label. */
export function labelChanges(vmi: VirtualMachineInstance): Readonly<Record<string, string | null>> {
  const { metadata, status } = vmi;
  const labels = metadata.labels ?? {};
  const target = openMigration(vmi)?.targetNode;
  const labeledTarget = labels[names.MIGRATION_TARGET_NODE_LABEL];
  if (labeledTarget === target) return {};
  const node = status?.nodeName;
  // Sets the node name label in the same patch that removes the target label. Otherwise, the watch of the node that now owns the guest
  // could lose the VMI between two patches.
  const nodeLabel =
    target === undefined && node !== undefined ? { [names.NODE_NAME_LABEL]: node } : {};
  return { ...nodeLabel, [names.MIGRATION_TARGET_NODE_LABEL]: target ?? null };
}
