// SPDX-License-Identifier: Apache-2.0
import { isJsonObject } from "@patchbay/api/json";
import type { JobStats, Migration } from "@patchbay/core/interfaces";

/** Source: libvirt virDomainMigrateFlags; a test compares the numbers with libvirt-domain.h */
export const VIR_MIGRATE = {
  LIVE: 1,
  PEER2PEER: 2,
  PERSIST_DEST: 8,
  PAUSED: 32,
  NON_SHARED_INC: 128,
  UNSAFE: 512,
  AUTO_CONVERGE: 8192,
} as const;

/** Source: libvirt virDomainJobOperation; a test compares the numbers with libvirt-domain.h */
export const VIR_DOMAIN_JOB_OPERATION = { MIGRATION_IN: 4, MIGRATION_OUT: 5 } as const;

/**
 * Returns the migration flags. With PAUSED, the guest stays paused on the target until virt-handler resumes it there. Without PAUSED, both
 * nodes could run the guest: if the target's response is lost, the source's libvirt also resumes the guest.
 */
function migrationFlags({ disks, throttles = false, allowsUnsafe = false }: Migration): number {
  const { LIVE, PEER2PEER, PERSIST_DEST, PAUSED, NON_SHARED_INC } = VIR_MIGRATE;
  const copyFlag = disks === undefined ? 0 : NON_SHARED_INC;
  const unsafeFlag = allowsUnsafe ? VIR_MIGRATE.UNSAFE : 0;
  const convergeFlag = throttles ? VIR_MIGRATE.AUTO_CONVERGE : 0;
  return LIVE | PEER2PEER | PERSIST_DEST | PAUSED | copyFlag | unsafeFlag | convergeFlag;
}

/** Returns the arguments of the addon's `migrateDomain`. Source: libvirt VIR_MIGRATE_PARAM_* */
export function buildMigrationArguments(name: string, migration: Migration): readonly string[] {
  const { peerUri, memoryUri, liveXml, configXml, disks, bandwidthMibPerSecond } = migration;
  const parameters: readonly (readonly [name: string, value: string | undefined])[] = [
    ["migrate_uri", memoryUri],
    ["destination_xml", liveXml],
    ["persistent_xml", configXml],
    ["bandwidth", bandwidthMibPerSecond === undefined ? undefined : String(bandwidthMibPerSecond)],
    ["disks_uri", disks?.uri],
    ...(disks?.targets ?? []).map((target) => ["migrate_disks", target] as const),
  ];
  const values = parameters.flatMap(([key, value]) => (value === undefined ? [] : [key, value]));
  return [name, peerUri, String(migrationFlags(migration)), ...values];
}

/** Parameter names of job statistics in libvirt. Source: libvirt VIR_DOMAIN_JOB_* */
const JOB_FIELDS: Readonly<Record<Exclude<keyof JobStats, "state" | "move">, string>> = {
  elapsedMs: "time_elapsed",
  totalBytes: "data_total",
  processedBytes: "data_processed",
  remainingBytes: "data_remaining",
  memoryBytesPerSecond: "memory_bps",
  dirtyPagesPerSecond: "memory_dirty_rate",
  pageBytes: "memory_page_size",
  throttlePercent: "auto_converge_throttle",
  downtimeMs: "downtime",
};

const STATES: ReadonlySet<unknown> = new Set<JobStats["state"]>([
  ...(["none", "running", "completed", "failed", "cancelled"] as const),
]);

const DIRECTION_BY_OPERATION: ReadonlyMap<unknown, "in" | "out"> = new Map([
  [String(VIR_DOMAIN_JOB_OPERATION.MIGRATION_IN), "in"],
  [String(VIR_DOMAIN_JOB_OPERATION.MIGRATION_OUT), "out"],
]);

export function parseJob(value: unknown): JobStats {
  if (!isJsonObject(value)) return { state: "unknown" };
  const { type, operation } = value;
  const numbers = Object.entries(JOB_FIELDS).flatMap(([fact, name]): [string, number][] => {
    const text = value[name];
    return typeof text === "string" && /^\d{1,15}$/.test(text) ? [[fact, Number(text)]] : [];
  });
  const move = DIRECTION_BY_OPERATION.get(operation);
  return {
    state: STATES.has(type) ? (type as JobStats["state"]) : "unknown",
    ...(move !== undefined && { move }),
    ...Object.fromEntries(numbers),
  };
}
