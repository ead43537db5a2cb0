// SPDX-License-Identifier: Apache-2.0
// Whose turn is it? Of one VMI one migration at a time; of the cluster, and from each node, as many as are allowed, the urgent ones
// first, then in the order in which they were asked for.
import {
  isMigrationFinal,
  MIGRATION_PRIORITIES,
  type VirtualMachineInstance,
  type VirtualMachineInstanceMigration,
} from "@patchbay/api";
import { openMigration } from "../owner.ts";

type Migration = VirtualMachineInstanceMigration;

/** Whether there is, or was, a target. */
export function hasMigrationBegun({ status }: Migration): boolean {
  return !["", "Pending"].includes(status?.phase ?? "");
}

function isUnderWay(migration: Migration): boolean {
  return hasMigrationBegun(migration) && !isMigrationFinal(migration);
}

/** By what two migrations are put in order: when they were asked for, then their names. */
function placeOf({ metadata }: Migration): string {
  const { creationTimestamp = "", namespace = "", name } = metadata;
  return `${creationTimestamp} ${namespace}/${name}`;
}

/** Without one it comes last. Source: KubeVirt pkg/util/migrations, PriorityFromMigration. */
function rankOf({ spec: { priority } }: Migration): number {
  const { length } = MIGRATION_PRIORITIES;
  return priority === undefined ? length : MIGRATION_PRIORITIES.indexOf(priority);
}

/** In the order in which they were asked for. */
export function inTurn(migrations: readonly Migration[]): readonly Migration[] {
  return migrations.toSorted((a, b) => (placeOf(a) < placeOf(b) ? -1 : 1));
}

/** Those that are not over: the urgent ones first, then in the order in which they were asked for. */
function openInTurn(migrations: readonly Migration[]): readonly Migration[] {
  const open = migrations.filter((each) => !isMigrationFinal(each));
  return inTurn(open).toSorted((a, b) => rankOf(a) - rankOf(b));
}

/** The one that is worked on of those of a VMI: what is open goes on, then what has begun, then who came first. */
export function currentMigration(
  migrations: readonly Migration[],
  vmi: VirtualMachineInstance | undefined,
): Migration | undefined {
  const all = openInTurn(migrations);
  const open = vmi && openMigration(vmi);
  if (open !== undefined) return all.find(({ metadata }) => metadata.uid === open.migrationUid);
  return all.find(hasMigrationBegun) ?? all[0];
}

/** How many guests may move at the same time. */
export interface MigrationLimits {
  readonly perCluster: number;
  /** Away from one node. */
  readonly perNode: number;
}

/** Counts what moves. */
class Moving {
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

function vmiKeyOf({ metadata, spec }: Migration): string {
  return `${metadata.namespace ?? ""}/${spec.vmiName ?? ""}`;
}

/**
 * Whether the limits let the migration begin, beside those that have and those that came before it. `nodeOf`: the node that a
 * migration's guest leaves; undefined: there is no such guest.
 */
export function mayBegin(
  migration: Migration,
  all: readonly Migration[],
  by: {
    readonly limits: MigrationLimits;
    readonly nodeOf: (migration: Migration) => string | undefined;
  },
): boolean {
  const moving = new Moving(by.limits);
  const seen = new Set<string>();
  const ordered = openInTurn(all);
  for (const each of ordered.filter(isUnderWay)) {
    seen.add(vmiKeyOf(each));
    moving.add(by.nodeOf(each) ?? "");
  }
  for (const each of ordered) {
    const node = by.nodeOf(each);
    if (moving.isFull()) return false;
    if (node === undefined || seen.has(vmiKeyOf(each))) continue;
    seen.add(vmiKeyOf(each));
    if (!moving.canLeave(node)) continue;
    if (each.metadata.uid === migration.metadata.uid) return true;
    moving.add(node);
  }
  return false;
}
