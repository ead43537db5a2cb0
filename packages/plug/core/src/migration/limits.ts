// SPDX-License-Identifier: Apache-2.0
// What a guest's move is held to on its nodes, of what virt-controller has settled for it. Pure.
import { migrationConfigOf, parseQuantity, type MigrationState } from "@patchbay/api";

const BYTES_PER_MIB = 1024 * 1024;

/** As libvirt and the relays take them. */
export interface MoveLimits {
  /** MiB a second at most; absent: as much as goes. */
  readonly bandwidthMibPerSecond?: number;
  /** Whether a guest that writes faster than its memory goes is slowed down. */
  readonly throttles: boolean;
  /** How long it may stand still, milliseconds. */
  readonly maxDowntimeMs: number;
  /** A move of which nothing comes over for so long is ended, milliseconds. */
  readonly silenceMs: number;
  /** Whether disks need not be known to be safe. */
  readonly allowsUnsafe: boolean;
}

/** One MiB a second is the least that libvirt knows. */
function bandwidthOf(quantity: string | number): Pick<MoveLimits, "bandwidthMibPerSecond"> {
  const bytes = parseQuantity(String(quantity)) ?? 0;
  return bytes > 0 ? { bandwidthMibPerSecond: Math.max(1, Math.floor(bytes / BYTES_PER_MIB)) } : {};
}

/** With KubeVirt's defaults for what is not said. */
export function moveLimitsOf({ migrationConfiguration }: MigrationState): MoveLimits {
  const settings = migrationConfigOf(migrationConfiguration);
  return {
    ...bandwidthOf(settings.bandwidthPerMigration),
    throttles: settings.allowAutoConverge,
    maxDowntimeMs: settings.maxDowntimeMs,
    silenceMs: settings.progressTimeout * 1000,
    allowsUnsafe: settings.unsafeMigrationOverride,
  };
}

/** In how many parts of it the downtime is allowed, from the first iteration on; then the whole of it. */
const DOWNTIME_PARTS = [9, 9, 9, 4, 2] as const;

/**
 * How long the guest may stand still if it goes now, milliseconds. `iteration`: how often all of its memory has been gone through, from 1.
 * QEMU stops a guest as soon as it expects the rest to go within the limit, and takes all of it: a guest that writes little has a short
 * outage after one iteration more, one that writes much is let go for the whole downtime in the end. Source: QEMU migration.c
 * `migration_iteration_run`; OpenStack Nova live_migration_downtime_steps.
 */
export function downtimeAt(iteration: number, maxDowntimeMs: number): number {
  const part = DOWNTIME_PARTS[iteration - 1] ?? 1;
  return Math.max(1, Math.round(maxDowntimeMs / part));
}
