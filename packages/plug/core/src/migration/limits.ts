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
