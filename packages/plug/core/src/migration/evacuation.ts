// SPDX-License-Identifier: Apache-2.0
// A guest was told to leave its node: which migration is asked for, and when again where one has failed? Pure. Source: KubeVirt
// pkg/virt-controller/watch/drain/evacuation and watch/migration, whose names and pauses these are.
import {
  isMigrationFinal,
  isVmiFinal,
  names,
  type EvictionStrategy,
  type VirtualMachineInstance,
  type VirtualMachineInstanceMigration,
} from "@patchbay/api";
import { sha256Hex } from "../iface/sha256.ts";
import { toMs } from "../time.ts";
import type { NewCondition } from "../status/conditions.ts";
import { inTurn } from "./control/turns.ts";
import { evictionStrategyIn, isMigratable } from "./requests.ts";

type Migration = VirtualMachineInstanceMigration;

/** Before the second try, milliseconds; it doubles with each. */
const PAUSE_MS = 20_000;
/** Doublings at most: of those that are over five are kept. */
const DOUBLINGS_MAX = 4;

/** KubeVirt's condition, and its reason. Source: KubeVirt api/core/v1 VirtualMachineInstanceEvictionRequested. */
export const EVICTION_REQUESTED = "EvictionRequested";

/** Whether the guest is to leave its node; there is no condition where it is not. */
export function evictionCondition({ status }: VirtualMachineInstance): readonly NewCondition[] {
  const { evacuationNodeName: node, nodeName } = status ?? {};
  if (node === undefined || node !== nodeName) return [];
  const message = `an eviction was requested: the guest is to leave node ${node}`;
  return [{ type: EVICTION_REQUESTED, status: "True", reason: EVICTION_REQUESTED, message }];
}

/** What is known of a VMI that may have been told to leave. */
export interface EvacuationFacts {
  readonly vmi: VirtualMachineInstance;
  /** All migrations of it. */
  readonly migrations: readonly Migration[];
  /** What an eviction does where the VM does not say. */
  readonly ofCluster: EvictionStrategy;
  readonly nowMs: number;
  /** The VMI's node accepts new pods: it was never cordoned, or was uncordoned. */
  readonly isNodeSchedulable: boolean;
}

/** One step. */
export type EvacuationStep =
  | { readonly kind: "createMigration"; readonly migration: Migration }
  /** The guest left the node or ended, or its migration failed and the node is schedulable. */
  | { readonly kind: "clearMark"; readonly node: string }
  | { readonly kind: "wait"; readonly forMs: number };

/** Whose guests virt-controller moves. */
const MOVED: readonly string[] = ["LiveMigrate", "LiveMigrateIfPossible"];

/** Those that were made since the guest was to leave that node, and have failed. */
function failedFrom(node: string, migrations: readonly Migration[]): readonly Migration[] {
  return inTurn(migrations).filter(
    ({ metadata, status }) =>
      metadata.annotations?.[names.EVACUATION_ANNOTATION] === node && status?.phase === "Failed",
  );
}

function endedMs({ status, metadata }: Migration): number {
  const { phaseTransitionTimestamps = [], migrationState } = status ?? {};
  const last = phaseTransitionTimestamps.at(-1)?.phaseTransitionTimestamp;
  return toMs(last ?? migrationState?.endTimestamp ?? metadata.creationTimestamp) ?? 0;
}

/** How long the next try waits, milliseconds. */
function pauseLeft(failed: readonly Migration[], nowMs: number): number {
  const last = failed.at(-1);
  if (last === undefined) return 0;
  const pauseMs = PAUSE_MS * 2 ** Math.min(failed.length - 1, DOUBLINGS_MAX);
  return Math.max(0, endedMs(last) + pauseMs - nowMs);
}

/** The name is a function of what came before, so that making it twice is an "already exists". */
function migrationFrom(
  node: string,
  vmi: VirtualMachineInstance,
  failed: readonly Migration[],
): Migration {
  const { namespace = "", name: vmiName, uid = "" } = vmi.metadata;
  const before = failed.at(-1)?.metadata.uid ?? "";
  // Longer than what generateName adds: it is not tried again.
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

/** The first migration, or the next one after failures. */
function planTry(node: string, facts: EvacuationFacts): EvacuationStep {
  const { vmi, migrations, nowMs, isNodeSchedulable } = facts;
  const failed = failedFrom(node, migrations);
  const forMs = pauseLeft(failed, nowMs);
  // Only a cordoned node is still being drained. On any other node the next eviction sets the mark again, and gets a
  // migration once the pause is over, so a tool that evicts without a cordon is served too.
  if (forMs > 0 && isNodeSchedulable) return { kind: "clearMark", node };
  if (forMs > 0) return { kind: "wait", forMs };
  return { kind: "createMigration", migration: migrationFrom(node, vmi, failed) };
}

/** The next step; undefined: there is none. */
export function planEvacuation(facts: EvacuationFacts): EvacuationStep | undefined {
  const { vmi, migrations, ofCluster } = facts;
  const { evacuationNodeName: node, nodeName } = vmi.status ?? {};
  if (node === undefined) return undefined;
  if (node !== nodeName || isVmiFinal(vmi)) return { kind: "clearMark", node };
  const isOurs = MOVED.includes(evictionStrategyIn(vmi, ofCluster)) && isMigratable(vmi);
  const isLeaving = vmi.metadata.deletionTimestamp !== undefined;
  if (!isOurs || isLeaving || migrations.some((each) => !isMigrationFinal(each))) return undefined;
  return planTry(node, facts);
}
