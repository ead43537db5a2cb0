// SPDX-License-Identifier: Apache-2.0
// Limits that a migration configuration sets for libvirt and the relays.
import {
  buildMigrationConfig,
  type MigrationConfiguration,
  type MigrationState,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { parseQuantity } from "@patchbay/api/values";
import { memoryMiBOf } from "../vm/spec/machine.ts";
import { toMs } from "@patchbay/base";

const MIB_PER_GIB = 1024;
const BYTES_PER_MIB = 1024 * 1024;

export interface MigrationLimits {
  readonly bandwidthMibPerSecond?: number;
  readonly throttles: boolean;
  readonly maxDowntimeMs: number;
  /** Time without progress after which a migration is aborted, in milliseconds. */
  readonly silenceMs: number;
  /** Whether migrations are allowed although libvirt considers a disk unsafe. */
  readonly allowsUnsafe: boolean;
}

/** Parses bytes per second, rounded down but at least libvirt's minimum of 1 MiB/s. */
function parseBandwidth(quantity: string | number): Pick<MigrationLimits, "bandwidthMibPerSecond"> {
  const bytes = parseQuantity(String(quantity)) ?? 0;
  return bytes > 0 ? { bandwidthMibPerSecond: Math.max(1, Math.floor(bytes / BYTES_PER_MIB)) } : {};
}

export function readMigrationLimits({ migrationConfiguration }: MigrationState): MigrationLimits {
  const settings = buildMigrationConfig(migrationConfiguration);
  return {
    ...parseBandwidth(settings.bandwidthPerMigration),
    throttles: settings.allowAutoConverge,
    maxDowntimeMs: settings.maxDowntimeMs,
    silenceMs: settings.progressTimeout * 1000,
    allowsUnsafe: settings.unsafeMigrationOverride,
  };
}

/** Returns the completion timeout in milliseconds: the configured time for each started GiB of memory, and for at least one. */
export function completionTimeoutMs(
  { completionTimeoutPerGiB }: Pick<MigrationConfiguration, "completionTimeoutPerGiB">,
  vmi: Pick<VirtualMachineInstance, "spec"> | undefined,
): number {
  const mib = vmi === undefined ? 0 : memoryMiBOf(vmi.spec.domain);
  return Math.max(1, Math.ceil(mib / MIB_PER_GIB)) * completionTimeoutPerGiB * 1000;
}

/**
 * Downtime limit, in milliseconds, that makes QEMU pause a guest at once and transfer the rest. It is QEMU's maximum.
 * Source: QEMU migration/options.h, MAX_MIGRATE_DOWNTIME.
 */
export const UNLIMITED_DOWNTIME_MS = 2_000_000;

export function mayDisruptNow(
  { startTimestamp, migrationConfiguration }: MigrationState,
  vmi: Pick<VirtualMachineInstance, "spec">,
  nowMs: number,
): boolean {
  const settings = buildMigrationConfig(migrationConfiguration);
  const startMs = toMs(startTimestamp);
  if (startMs === undefined || !settings.allowWorkloadDisruption) return false;
  return nowMs - startMs >= completionTimeoutMs(settings, vmi);
}

/** Divisors of the downtime limit for the first iterations. Later iterations use the full limit. */
const DOWNTIME_DIVISORS = [9, 9, 9, 4, 2] as const;

/**
 * Returns the downtime limit in milliseconds for an iteration. `iteration` counts passes over the guest's memory, from 1.
 * QEMU pauses a guest when it expects to transfer the rest within the limit, and uses the whole limit. A low limit at first
 * gives a guest that writes little a short outage. An emulated guest gets the full limit at once, because QEMU before 9.0
 * may miss its writes in each iteration. Source: QEMU migration.c `migration_iteration_run`; OpenStack Nova
 * live_migration_downtime_steps; docs/migration.md, "Emulated guests".
 */
export function downtimeAt(
  iteration: number,
  { maxDowntimeMs, isEmulated }: { readonly maxDowntimeMs: number; readonly isEmulated: boolean },
): number {
  const part = isEmulated ? 1 : (DOWNTIME_DIVISORS[iteration - 1] ?? 1);
  return Math.max(1, Math.round(maxDowntimeMs / part));
}
