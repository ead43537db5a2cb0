// SPDX-License-Identifier: Apache-2.0
// Order of migrations: by priority, then by age. Limits concurrent migrations: one per VMI, and a maximum per source node and per cluster.
import {
  isMigrationFinal,
  MIGRATION_PRIORITIES,
  type VirtualMachineInstance,
  type VirtualMachineInstanceMigration,
} from "@patchbay/api";
import { openMigration } from "../owner.ts";

type Migration = VirtualMachineInstanceMigration;

export function hasMigrationBegun({ status }: Migration): boolean {
  return !["", "Pending"].includes(status?.phase ?? "");
}

function isActive(migration: Migration): boolean {
  return hasMigrationBegun(migration) && !isMigrationFinal(migration);
}

function sortKey({ metadata }: Migration): string {
  const { creationTimestamp = "", namespace = "", name } = metadata;
  return `${creationTimestamp} ${namespace}/${name}`;
}

/** Returns the rank by priority. A migration without a priority ranks last. Source: KubeVirt pkg/util/migrations, PriorityFromMigration. */
function rankPriority({ spec: { priority } }: Migration): number {
  const { length } = MIGRATION_PRIORITIES;
  return priority === undefined ? length : MIGRATION_PRIORITIES.indexOf(priority);
}

export function sortByAge(migrations: readonly Migration[]): readonly Migration[] {
  return migrations.toSorted((left, right) => (sortKey(left) < sortKey(right) ? -1 : 1));
}

function listOpen(migrations: readonly Migration[]): readonly Migration[] {
  const openMigrations = migrations.filter((migration) => !isMigrationFinal(migration));
  return sortByAge(openMigrations).toSorted((a, b) => rankPriority(a) - rankPriority(b));
}

/**
 * Returns the VMI's current migration. If the VMI's status contains an open migration, returns that migration, or undefined if its object
 * is deleted or final. Otherwise returns a migration that has begun, or else the first in the queue.
 */
export function currentMigration(
  migrations: readonly Migration[],
  vmi: VirtualMachineInstance | undefined,
): Migration | undefined {
  const openMigrations = listOpen(migrations);
  const openState = vmi && openMigration(vmi);
  if (openState !== undefined)
    return openMigrations.find(({ metadata }) => metadata.uid === openState.migrationUid);
  return openMigrations.find(hasMigrationBegun) ?? openMigrations[0];
}

export interface MigrationLimits {
  readonly perCluster: number;
  readonly perNode: number;
}

class MigrationCounter {
  #all = 0;
  readonly #byNode = new Map<string, number>();
  readonly #limits: MigrationLimits;

  constructor(limits: MigrationLimits) {
    this.#limits = limits;
  }

  isFull(): boolean {
    return this.#all >= this.#limits.perCluster;
  }

  canLeave(node: string): boolean {
    return !this.isFull() && (this.#byNode.get(node) ?? 0) < this.#limits.perNode;
  }

  add(node: string): void {
    this.#all += 1;
    this.#byNode.set(node, (this.#byNode.get(node) ?? 0) + 1);
  }
}

function vmiKey({ metadata, spec }: Migration): string {
  return `${metadata.namespace ?? ""}/${spec.vmiName ?? ""}`;
}

/**
 * Checks whether the limits allow the migration to begin. Earlier migrations in the queue count as if they had begun.
 * `nodeOf` returns the source node, or undefined if the guest does not exist.
 */
export function mayBegin(
  migration: Migration,
  migrations: readonly Migration[],
  constraints: {
    readonly limits: MigrationLimits;
    readonly nodeOf: (migration: Migration) => string | undefined;
  },
): boolean {
  const counter = new MigrationCounter(constraints.limits);
  const visited = new Set<string>();
  const openMigrations = listOpen(migrations);
  for (const candidate of openMigrations.filter(isActive)) {
    visited.add(vmiKey(candidate));
    counter.add(constraints.nodeOf(candidate) ?? "");
  }
  for (const candidate of openMigrations) {
    const node = constraints.nodeOf(candidate);
    if (counter.isFull()) return false;
    if (node === undefined || visited.has(vmiKey(candidate))) continue;
    visited.add(vmiKey(candidate));
    if (!counter.canLeave(node)) continue;
    if (candidate.metadata.uid === migration.metadata.uid) return true;
    counter.add(node);
  }
  return false;
}
