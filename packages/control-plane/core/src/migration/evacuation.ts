// SPDX-License-Identifier: Apache-2.0
// Creates migrations for guests whose eviction was requested, and retries failed ones. Source of names and delays: KubeVirt
// pkg/virt-controller/watch/drain/evacuation and watch/migration.
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

/** Delay before the first retry, from the end of the failed migration. Each further failure doubles it. */
const RETRY_DELAY_MS = 20_000;
/** Limit of doublings: only five finished migrations are retained, so more failures cannot be counted. */
const DOUBLINGS_MAX = 4;

/** Condition type, also its reason. Source: KubeVirt api/core/v1 VirtualMachineInstanceEvictionRequested. */
export const EVICTION_REQUESTED = "EvictionRequested";

export function evictionCondition({ status }: VirtualMachineInstance): readonly NewCondition[] {
  const { evacuationNodeName: node, nodeName } = status ?? {};
  if (node === undefined || node !== nodeName) return [];
  const message = `an eviction was requested: the guest is to leave node ${node}`;
  return [{ type: EVICTION_REQUESTED, status: "True", reason: EVICTION_REQUESTED, message }];
}

export interface EvacuationFacts {
  readonly vmi: VirtualMachineInstance;
  readonly migrations: readonly Migration[];
  /** Strategy of VMIs without their own. */
  readonly clusterStrategy: EvictionStrategy;
  readonly nowMs: number;
  /** Whether the VMI's node is not cordoned. */
  readonly isNodeSchedulable: boolean;
}

export type EvacuationStep =
  | { readonly kind: "createMigration"; readonly migration: Migration }
  /** Removes the eviction request from the VMI, unless it is for another node now. */
  | { readonly kind: "clearMark"; readonly node: string }
  | { readonly kind: "wait"; readonly forMs: number };

const MIGRATING_STRATEGIES: readonly string[] = ["LiveMigrate", "LiveMigrateIfPossible"];

function listFailed(node: string, migrations: readonly Migration[]): readonly Migration[] {
  return sortByAge(migrations).filter(
    ({ metadata, status }) =>
      metadata.annotations?.[names.EVACUATION_ANNOTATION] === node && status?.phase === "Failed",
  );
}

function endedMs({ status, metadata }: Migration): number {
  const { phaseTransitionTimestamps = [], migrationState } = status ?? {};
  const last = phaseTransitionTimestamps.at(-1)?.phaseTransitionTimestamp;
  return toMs(last ?? migrationState?.endTimestamp ?? metadata.creationTimestamp) ?? 0;
}

function remainingRetryDelayMs(failed: readonly Migration[], nowMs: number): number {
  const last = failed.at(-1);
  if (last === undefined) return 0;
  const pauseMs = RETRY_DELAY_MS * 2 ** Math.min(failed.length - 1, DOUBLINGS_MAX);
  return Math.max(0, endedMs(last) + pauseMs - nowMs);
}

/** Builds a migration whose name depends on the last failed one, so that a second create fails with "already exists". */
function buildMigration(
  node: string,
  vmi: VirtualMachineInstance,
  failed: readonly Migration[],
): Migration {
  const { namespace = "", name: vmiName, uid = "" } = vmi.metadata;
  const before = failed.at(-1)?.metadata.uid ?? "";
  // The suffix is longer than generateName's, because a collision is not retried.
  const suffix = sha256Hex(`${uid} ${node} ${before}`).slice(0, 10);
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
  const failed = listFailed(node, migrations);
  const forMs = remainingRetryDelayMs(failed, nowMs);
  // A node that is not cordoned is not being drained. The next eviction request sets the mark again.
  if (forMs > 0 && isNodeSchedulable) return { kind: "clearMark", node };
  if (forMs > 0) return { kind: "wait", forMs };
  return { kind: "createMigration", migration: buildMigration(node, vmi, failed) };
}

export function planEvacuation(facts: EvacuationFacts): EvacuationStep | undefined {
  const { vmi, migrations, clusterStrategy } = facts;
  const { evacuationNodeName: node, nodeName } = vmi.status ?? {};
  if (node === undefined) return undefined;
  if (node !== nodeName || isVmiFinal(vmi)) return { kind: "clearMark", node };
  const shouldMigrate =
    MIGRATING_STRATEGIES.includes(findEvictionStrategy(vmi, clusterStrategy)) && isMigratable(vmi);
  const isBeingDeleted = vmi.metadata.deletionTimestamp !== undefined;
  if (!shouldMigrate || isBeingDeleted || migrations.some((each) => !isMigrationFinal(each)))
    return undefined;
  return planAttempt(node, facts);
}
