// SPDX-License-Identifier: Apache-2.0
// Creates migrations after evictions. Source of names and delays: KubeVirt pkg/virt-controller/watch/drain/evacuation.
import {
  isMigrationFinal,
  isVmiFinal,
  names,
  type EvictionStrategy,
  type VirtualMachineInstance,
  type VirtualMachineInstanceMigration,
} from "@patchbay/api";
import { sha256Hex } from "../nics/sha256.ts";
import { toMs } from "@patchbay/base";
import type { NewCondition } from "../status/conditions.ts";
import { sortByAge } from "./control/queue.ts";
import { findEvictionStrategy, isMigratable } from "./requests.ts";

type Migration = VirtualMachineInstanceMigration;

/** Delay between the first failed migration and its retry. Each further failure doubles the delay. */
const RETRY_DELAY_MS = 20_000;
/** Maximum number of doublings. virt-controller retains five finished migrations, so it can count at most five failures. */
const DOUBLINGS_MAX = 4;

/** Condition type and reason. Source: KubeVirt api/core/v1 VirtualMachineInstanceEvictionRequested. */
export const EVICTION_REQUESTED = "EvictionRequested";

export function buildEvictionCondition({
  status,
}: VirtualMachineInstance): readonly NewCondition[] {
  const { evacuationNodeName: node, nodeName } = status ?? {};
  if (node === undefined || node !== nodeName) return [];
  const message = `an eviction was requested: the guest is to leave node ${node}`;
  return [{ type: EVICTION_REQUESTED, status: "True", reason: EVICTION_REQUESTED, message }];
}

export interface EvacuationFacts {
  readonly vmi: VirtualMachineInstance;
  readonly migrations: readonly Migration[];
  /** Eviction strategy of VMIs without `spec.evictionStrategy`. */
  readonly clusterStrategy: EvictionStrategy;
  readonly nowMs: number;
  readonly isNodeSchedulable: boolean;
}

export type EvacuationStep =
  | { readonly kind: "createMigration"; readonly migration: Migration }
  /** Removes the eviction request from the VMI, unless the request is for another node. */
  | { readonly kind: "clearMark"; readonly node: string }
  /** Records that the node was cordoned during the eviction request, so that uncordoning the node ends the request. */
  | { readonly kind: "recordDrain"; readonly node: string }
  /** Removes a record that `recordDrain` wrote for an eviction request that no longer exists. */
  | { readonly kind: "clearDrain" }
  | { readonly kind: "wait"; readonly forMs: number };

const MIGRATING_STRATEGIES: readonly string[] = ["LiveMigrate", "LiveMigrateIfPossible"];

/** Lists the failed evacuations of this VMI from the node, oldest first. Ignores evacuations of an earlier VMI with the same name. */
function listFailed(
  node: string,
  vmi: VirtualMachineInstance,
  migrations: readonly Migration[],
): readonly Migration[] {
  const createdMs = toMs(vmi.metadata.creationTimestamp) ?? 0;
  return sortByAge(migrations).filter(
    ({ metadata, status }) =>
      metadata.annotations?.[names.EVACUATION_ANNOTATION] === node &&
      status?.phase === "Failed" &&
      (toMs(metadata.creationTimestamp) ?? 0) >= createdMs,
  );
}

function findEndMs({ status, metadata }: Migration): number {
  const { phaseTransitionTimestamps = [], migrationState } = status ?? {};
  const lastTransition = phaseTransitionTimestamps.at(-1)?.phaseTransitionTimestamp;
  return toMs(lastTransition ?? migrationState?.endTimestamp ?? metadata.creationTimestamp) ?? 0;
}

function computeRetryDelayMs(failed: readonly Migration[], nowMs: number): number {
  const lastFailure = failed.at(-1);
  if (lastFailure === undefined) return 0;
  const pauseMs = RETRY_DELAY_MS * 2 ** Math.min(failed.length - 1, DOUBLINGS_MAX);
  return Math.max(0, findEndMs(lastFailure) + pauseMs - nowMs);
}

/** Builds a migration. Each attempt has its own name, derived from the last failed attempt, so that no attempt is created twice. */
function buildMigration(
  node: string,
  vmi: VirtualMachineInstance,
  failed: readonly Migration[],
): Migration {
  const { namespace = "", name: vmiName, uid = "" } = vmi.metadata;
  const lastFailedUid = failed.at(-1)?.metadata.uid ?? "";
  // This suffix is longer than a suffix from `generateName`, because virt-controller does not choose another name after a collision.
  const suffix = sha256Hex(`${uid} ${node} ${lastFailedUid}`).slice(0, 10);
  return {
    apiVersion: "kubevirt.io/v1",
    kind: "VirtualMachineInstanceMigration",
    metadata: {
      namespace,
      name: `kubevirt-evacuation-${suffix}`,
      annotations: { [names.EVACUATION_ANNOTATION]: node },
    },
    spec: { vmiName, priority: "system-critical" },
  };
}

function planAttempt(node: string, facts: EvacuationFacts): EvacuationStep {
  const { vmi, migrations, nowMs, isNodeSchedulable } = facts;
  const failed = listFailed(node, vmi, migrations);
  const forMs = computeRetryDelayMs(failed, nowMs);
  // A failed attempt is retried only while the node is unschedulable, that is, being drained. Otherwise, the eviction request
  // is removed, and only a new request starts another migration.
  if (forMs > 0 && isNodeSchedulable) return { kind: "clearMark", node };
  if (forMs > 0) return { kind: "wait", forMs };
  return { kind: "createMigration", migration: buildMigration(node, vmi, failed) };
}

/** Plans to record in `drainedNodeName` that the node is cordoned. After the node is uncordoned, plans to clear `evacuationNodeName`. */
function planDrainRecord(
  node: string,
  { vmi, isNodeSchedulable }: EvacuationFacts,
): EvacuationStep | undefined {
  const isDrained = vmi.status?.drainedNodeName === node;
  if (isNodeSchedulable) return isDrained ? { kind: "clearMark", node } : undefined;
  return isDrained ? undefined : { kind: "recordDrain", node };
}

export function planEvacuation(facts: EvacuationFacts): EvacuationStep | undefined {
  const { vmi, migrations, clusterStrategy } = facts;
  const { evacuationNodeName: node, nodeName, drainedNodeName } = vmi.status ?? {};
  if (node === undefined) return drainedNodeName === undefined ? undefined : { kind: "clearDrain" };
  if (node !== nodeName || isVmiFinal(vmi)) return { kind: "clearMark", node };
  const drainStep = planDrainRecord(node, facts);
  if (drainStep !== undefined) return drainStep;
  const shouldMigrate =
    MIGRATING_STRATEGIES.includes(findEvictionStrategy(vmi, clusterStrategy)) && isMigratable(vmi);
  const isBeingDeleted = vmi.metadata.deletionTimestamp !== undefined;
  if (
    !shouldMigrate ||
    isBeingDeleted ||
    migrations.some((migration) => !isMigrationFinal(migration))
  )
    return undefined;
  return planAttempt(node, facts);
}
