// SPDX-License-Identifier: Apache-2.0
// The order of migrations: by priority, then by age. Each VMI has one at a time, and limits apply to the cluster and to each
// source node.
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

/** Returns the rank by priority. No priority ranks last. Source: KubeVirt pkg/util/migrations, PriorityFromMigration. */
function priorityRank({ spec: { priority } }: Migration): number {
  const { length } = MIGRATION_PRIORITIES;
  return priority === undefined ? length : MIGRATION_PRIORITIES.indexOf(priority);
}

export function sortByAge(migrations: readonly Migration[]): readonly Migration[] {
  return migrations.toSorted((a, b) => (sortKey(a) < sortKey(b) ? -1 : 1));
}

function listOpen(migrations: readonly Migration[]): readonly Migration[] {
  const open = migrations.filter((each) => !isMigrationFinal(each));
  return sortByAge(open).toSorted((a, b) => priorityRank(a) - priorityRank(b));
}

/** Returns the VMI's current migration: the open one, otherwise one that has begun, otherwise the first. */
export function currentMigration(
  migrations: readonly Migration[],
  vmi: VirtualMachineInstance | undefined,
): Migration | undefined {
  const all = listOpen(migrations);
  const open = vmi && openMigration(vmi);
  if (open !== undefined) return all.find(({ metadata }) => metadata.uid === open.migrationUid);
  return all.find(hasMigrationBegun) ?? all[0];
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
 * Whether the limits allow the migration to begin, beside active migrations and those before it in the order. `nodeOf`
 * returns the source node, or undefined if the guest does not exist.
 */
export function mayBegin(
  migration: Migration,
  all: readonly Migration[],
  by: {
    readonly limits: MigrationLimits;
    readonly nodeOf: (migration: Migration) => string | undefined;
  },
): boolean {
  const counter = new MigrationCounter(by.limits);
  const visited = new Set<string>();
  const ordered = listOpen(all);
  for (const each of ordered.filter(isActive)) {
    visited.add(vmiKey(each));
    counter.add(by.nodeOf(each) ?? "");
  }
  for (const each of ordered) {
    const node = by.nodeOf(each);
    if (counter.isFull()) return false;
    if (node === undefined || visited.has(vmiKey(each))) continue;
    visited.add(vmiKey(each));
    if (!counter.canLeave(node)) continue;
    if (each.metadata.uid === migration.metadata.uid) return true;
    counter.add(node);
  }
  return false;
}
