// SPDX-License-Identifier: Apache-2.0
// What a guest's move is held to on its nodes, of what virt-controller has settled for it. Pure.
import {
  migrationConfigOf,
  parseQuantity,
  type MigrationConfiguration,
  type MigrationState,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { memoryMiBOf } from "../spec/machine.ts";
import { toMs } from "../time.ts";

const MIB_PER_GIB = 1024;
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

/** How long a guest may take, milliseconds: so long for each GiB of its memory; one of less than one takes as long as one. */
export function completionMsOf(
  { completionTimeoutPerGiB }: Pick<MigrationConfiguration, "completionTimeoutPerGiB">,
  vmi: Pick<VirtualMachineInstance, "spec"> | undefined,
): number {
  const mib = vmi === undefined ? 0 : memoryMiBOf(vmi.spec.domain);
  return Math.max(1, Math.ceil(mib / MIB_PER_GIB)) * completionTimeoutPerGiB * 1000;
}

/**
 * What a guest that has taken all of that time may stand still, milliseconds: it goes as soon as this is allowed, whatever is left of it. The most that
 * QEMU takes. Source: QEMU migration/options.h, MAX_MIGRATE_DOWNTIME.
 */
export const DISRUPTED_MS = 2_000_000;

/** Whether its time is over, and it may be disrupted for it. `nowMs`: milliseconds since 1970. */
export function isToBeDisrupted(
  { startTimestamp, migrationConfiguration }: MigrationState,
  vmi: Pick<VirtualMachineInstance, "spec">,
  nowMs: number,
): boolean {
  const settings = migrationConfigOf(migrationConfiguration);
  const startMs = toMs(startTimestamp);
  if (startMs === undefined || !settings.allowWorkloadDisruption) return false;
  return nowMs - startMs >= completionMsOf(settings, vmi);
}

/** In how many parts of it the downtime is allowed, from the first iteration on; then the whole of it. */
const DOWNTIME_PARTS = [9, 9, 9, 4, 2] as const;

/**
 * How long the guest may stand still if it goes now, milliseconds. `iteration`: how often all of its memory has been gone through, from 1.
 * QEMU stops a guest as soon as it expects the rest to go within the limit, and takes all of it: a guest that writes little has a short
 * outage after one iteration more, one that writes much is let go for the whole downtime in the end. One that is emulated is let go as soon as
 * it can: with each iteration while it runs QEMU before 9.0 may miss what it writes. Source: QEMU migration.c
 * `migration_iteration_run`; OpenStack Nova live_migration_downtime_steps; docs/migration.md, "Emulated guests".
 */
export function downtimeAt(
  iteration: number,
  { maxDowntimeMs, isEmulated }: { readonly maxDowntimeMs: number; readonly isEmulated: boolean },
): number {
  const part = isEmulated ? 1 : (DOWNTIME_PARTS[iteration - 1] ?? 1);
  return Math.max(1, Math.round(maxDowntimeMs / part));
}
