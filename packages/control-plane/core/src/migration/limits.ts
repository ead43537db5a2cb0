// SPDX-License-Identifier: Apache-2.0
import {
  buildMigrationConfig,
  type MigrationConfiguration,
  type MigrationState,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { parseQuantity } from "@patchbay/api/values";
import { computeMemoryMiB } from "../vm/spec/machine.ts";
import { toMs } from "@patchbay/base";

const MIB_PER_GIB = 1024;
const BYTES_PER_MIB = 1024 * 1024;

export interface MigrationLimits {
  readonly bandwidthMibPerSecond?: number;
  readonly throttles: boolean;
  readonly maxDowntimeMs: number;
  /** Time without progress after which virt-handler aborts a migration, in milliseconds. */
  readonly stallTimeoutMs: number;
  /** Whether a migration may start although libvirt considers it unsafe for the data of a disk. */
  readonly allowsUnsafe: boolean;
}

/** Parses a bandwidth in bytes per second; 0 means no limit. Raises limits below libvirt's minimum to 1 MiB/s. */
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
    stallTimeoutMs: settings.progressTimeout * 1000,
    allowsUnsafe: settings.unsafeMigrationOverride,
  };
}

export function completionTimeoutMs(
  { completionTimeoutPerGiB }: Pick<MigrationConfiguration, "completionTimeoutPerGiB">,
  vmi: Pick<VirtualMachineInstance, "spec"> | undefined,
): number {
  const mib = vmi === undefined ? 0 : computeMemoryMiB(vmi.spec.domain);
  return Math.max(1, Math.ceil(mib / MIB_PER_GIB)) * completionTimeoutPerGiB * 1000;
}

/** Downtime limit that lets QEMU pause a guest immediately, in milliseconds. Source: QEMU MAX_MIGRATE_DOWNTIME. */
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

/** Divisors of the downtime limit for the first five iterations. Later iterations use the whole limit. */
const DOWNTIME_DIVISORS = [9, 9, 9, 4, 2] as const;

/**
 * Returns the downtime limit in milliseconds for an iteration. An iteration is a pass over the guest's memory; the first has number 1. QEMU
 * pauses the guest when it expects to transfer the remaining memory within the limit. The limit is low at first, so that an idle guest is
 * paused only briefly. An emulated guest gets the whole limit from the start, so that it needs few iterations: QEMU before 9.0 may lose
 * some of the guest's writes in each iteration. Source: QEMU migration.c `migration_iteration_run`; OpenStack Nova
 * live_migration_downtime_steps; docs/migration.md, "Emulated guests".
 */
export function downtimeAt(
  iteration: number,
  { maxDowntimeMs, isEmulated }: { readonly maxDowntimeMs: number; readonly isEmulated: boolean },
): number {
  const part = isEmulated ? 1 : (DOWNTIME_DIVISORS[iteration - 1] ?? 1);
  return Math.max(1, Math.round(maxDowntimeMs / part));
}
