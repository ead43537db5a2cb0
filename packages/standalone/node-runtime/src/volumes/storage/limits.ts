// SPDX-License-Identifier: Apache-2.0
// Disk limits of pods, and the decision when to measure their usage. Pure.
import { parseQuantity, type Container, type Pod, type PodVolume } from "@patchbay/api";

/** In addition to volumes with their own limit. */
export const DEFAULT_STORAGE_BYTES: number = 2 * 2 ** 30;
/** Below the smaller of both the largest pod is evicted. */
const PRESSURE_SHARE = 0.05;
const PRESSURE_BYTES = 2 ** 30;
/** Pods that would free less are not evicted. */
const EVICTION_MIN_BYTES = 64 * 2 ** 20;
/** One pod's writes may be hidden by another's deletions. */
const WALK_INTERVAL_MAX_MS = 60_000;
const WALK_INTERVAL_MIN_MS = 10_000;

/** Smaller writes are normal. */
const NORMAL_WRITES_BYTES = 2 ** 20;

export interface PodUsage {
  /** Without volumes in memory. */
  readonly volumes: ReadonlyMap<string, number>;
  /** Logs and writable layer. */
  readonly containers: ReadonlyMap<string, number>;
  /** Counts only when the disk is nearly full. */
  readonly growth?: ReadonlyMap<string, number>;
}

export interface DiskSpace {
  readonly sizeBytes: number;
  readonly freeBytes: number;
}

export interface Walk {
  readonly atMs: number;
  readonly freeBytes: number;
  /** Bytes that the pod nearest to its limit may still write. */
  readonly headroomBytes: number;
}

function parseBytes(quantity: string | undefined): number {
  return quantity === undefined ? 0 : (parseQuantity(quantity) ?? 0);
}

function parseContainerLimit({ resources }: Container): number {
  return parseBytes(resources?.limits?.["ephemeral-storage"]);
}

function isOnDisk({ emptyDir }: PodVolume): boolean {
  return emptyDir !== undefined && emptyDir.medium !== "Memory";
}

function sum(amounts: Iterable<number>): number {
  return [...amounts].reduce((total, one) => total + one, 0);
}

export function findStorageLimit({ spec }: Pod): number {
  const named = sum(spec.containers.map(parseContainerLimit));
  if (named > 0) return Math.ceil(named);
  const volumes = (spec.volumes ?? []).filter(isOnDisk);
  return (
    DEFAULT_STORAGE_BYTES +
    Math.ceil(sum(volumes.map(({ emptyDir }) => parseBytes(emptyDir?.sizeLimit))))
  );
}

export function sumUsage({ volumes, containers }: PodUsage): number {
  return sum(volumes.values()) + sum(containers.values());
}

const UNITS = ["Gi", "Mi", "Ki"] as const;
const UNIT_BYTES = { Gi: 2 ** 30, Mi: 2 ** 20, Ki: 2 ** 10 } as const;

/** For example `12.3Mi`. */
export function printBytes(bytes: number): string {
  const unit = UNITS.find((one) => bytes >= UNIT_BYTES[one]);
  if (unit === undefined) return String(Math.ceil(bytes));
  return `${String(Math.round((bytes / UNIT_BYTES[unit]) * 10) / 10)}${unit}`;
}

function findVolumeViolation({ spec }: Pod, { volumes }: PodUsage): string | undefined {
  const exceeding = (spec.volumes ?? []).filter(isOnDisk).find(({ name, emptyDir }) => {
    const limit = parseBytes(emptyDir?.sizeLimit);
    return limit > 0 && (volumes.get(name) ?? 0) > limit;
  });
  if (exceeding === undefined) return undefined;
  const used = printBytes(volumes.get(exceeding.name) ?? 0);
  return `Usage of EmptyDir volume "${exceeding.name}" (${used}) exceeds the limit "${exceeding.emptyDir?.sizeLimit ?? ""}".`;
}

function findContainerViolation({ spec }: Pod, { containers }: PodUsage): string | undefined {
  const exceeding = spec.containers.find((one) => {
    const limit = parseContainerLimit(one);
    return limit > 0 && (containers.get(one.name) ?? 0) > limit;
  });
  if (exceeding === undefined) return undefined;
  const used = printBytes(containers.get(exceeding.name) ?? 0);
  const limit = exceeding.resources?.limits?.["ephemeral-storage"] ?? "";
  return `Container ${exceeding.name} (${used}) exceeded its local ephemeral storage limit "${limit}".`;
}

function describeLargest({ volumes, containers, growth = new Map() }: PodUsage): string {
  const all = [
    ...[...growth].map(([what, bytes]) => ({ what, bytes })),
    ...[...volumes].map(([name, bytes]) => ({ what: `volume "${name}"`, bytes })),
    ...[...containers].map(([name, bytes]) => ({ what: `container "${name}"`, bytes })),
  ];
  const most = all.reduce((one, other) => (other.bytes > one.bytes ? other : one), {
    what: "",
    bytes: 0,
  });
  return `${most.what} (${printBytes(most.bytes)})`;
}

export function findLimitViolation(pod: Pod, usage: PodUsage): string | undefined {
  const violation = findVolumeViolation(pod, usage) ?? findContainerViolation(pod, usage);
  if (violation !== undefined) return violation;
  const [total, limit] = [sumUsage(usage), findStorageLimit(pod)];
  if (total <= limit) return undefined;
  return `Pod ephemeral local storage usage (${printBytes(total)}) exceeds its limit "${printBytes(limit)}"; most of it is in ${describeLargest(usage)}.`;
}

function pressureBytes({ sizeBytes }: DiskSpace): number {
  return Math.min(sizeBytes * PRESSURE_SHARE, PRESSURE_BYTES);
}

function isLow(disk: DiskSpace): boolean {
  return disk.freeBytes < pressureBytes(disk);
}

/** Evicting the pod stops its growth, or all pods together could free enough space. */
function isHelpful(most: PodUsage, all: readonly PodUsage[], disk: DiskSpace): boolean {
  if (sum(most.growth?.values() ?? []) >= EVICTION_MIN_BYTES) return true;
  return sum(all.map(sumUsage)) >= pressureBytes(disk) - disk.freeBytes;
}

export function selectVictim(
  usages: ReadonlyMap<string, PodUsage>,
  disk: DiskSpace,
): { readonly uid: string; readonly message: string } | undefined {
  if (!isLow(disk)) return undefined;
  const all = [...usages].map(([uid, usage]) => {
    return { uid, usage, bytes: sumUsage(usage) + sum(usage.growth?.values() ?? []) };
  });
  const [most] = all.sort((one, other) => other.bytes - one.bytes);
  if (most === undefined || most.bytes < EVICTION_MIN_BYTES) return undefined;
  if (!isHelpful(most.usage, [...usages.values()], disk)) return undefined;
  const message = `The node was low on resource: ephemeral-storage. ${printBytes(disk.freeBytes)} of ${printBytes(disk.sizeBytes)} were left, and this pod used most (${printBytes(most.bytes)}); most of it is in ${describeLargest(most.usage)}.`;
  return { uid: most.uid, message };
}

export function isWalkDue(
  last: Walk | undefined,
  now: DiskSpace & { readonly atMs: number },
): boolean {
  if (last === undefined) return true;
  const sinceMs = now.atMs - last.atMs;
  if (sinceMs < WALK_INTERVAL_MIN_MS) return false;
  const written = last.freeBytes - now.freeBytes;
  return (
    written >= Math.max(last.headroomBytes / 2, NORMAL_WRITES_BYTES) ||
    isLow(now) ||
    sinceMs >= WALK_INTERVAL_MAX_MS
  );
}

export function computeHeadroomBytes(pod: Pod, usage: PodUsage): number {
  const volumes = (pod.spec.volumes ?? []).filter(isOnDisk).flatMap(({ name, emptyDir }) => {
    const limit = parseBytes(emptyDir?.sizeLimit);
    return limit > 0 ? [limit - (usage.volumes.get(name) ?? 0)] : [];
  });
  return Math.max(Math.min(...volumes, findStorageLimit(pod) - sumUsage(usage)), 0);
}
