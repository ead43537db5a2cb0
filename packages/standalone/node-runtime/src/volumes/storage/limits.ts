// SPDX-License-Identifier: Apache-2.0
// Computes disk limits of pods, and decides when to measure the usage.
import type { Container, Pod, PodVolume } from "@patchbay/api/kubernetes";
import { parseQuantity } from "@patchbay/api/values";

/** Default disk limit of a pod, in bytes, in addition to the limits of its emptyDir volumes. */
export const DEFAULT_STORAGE_BYTES: number = 2 * 2 ** 30;
// The largest pod is evicted if the free space is below both limits.
const PRESSURE_SHARE = 0.05;
const PRESSURE_BYTES = 2 ** 30;
/** On a nearly full disk, a pod is evicted only if its usage and recent growth together are at least this many bytes. */
const EVICTION_MIN_BYTES = 64 * 2 ** 20;
/** Maximum time between walks of the pods' directories. Free space shows no writes if deletions free the same amount meanwhile. */
const WALK_INTERVAL_MAX_MS = 60_000;
const WALK_INTERVAL_MIN_MS = 10_000;

/** Minimum decrease of free space, in bytes, that triggers a walk of the pods' directories. */
const NORMAL_WRITES_BYTES = 2 ** 20;

export interface PodUsage {
  readonly volumes: ReadonlyMap<string, number>;
  readonly containers: ReadonlyMap<string, number>;
  /** Recent growth in bytes. The key describes the growing data, for example a claim. Counts as usage only when the disk is nearly full. */
  readonly growth?: ReadonlyMap<string, number>;
}

export interface DiskSpace {
  readonly sizeBytes: number;
  readonly freeBytes: number;
}

export interface Walk {
  readonly atMs: number;
  readonly freeBytes: number;
  /** Bytes that the pod closest to its limit may still write. */
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
  return [...amounts].reduce((total, amount) => total + amount, 0);
}

export function findStorageLimit({ spec }: Pod): number {
  const containerLimits = sum(spec.containers.map(parseContainerLimit));
  if (containerLimits > 0) return Math.ceil(containerLimits);
  const volumes = (spec.volumes ?? []).filter(isOnDisk);
  return (
    DEFAULT_STORAGE_BYTES +
    Math.ceil(sum(volumes.map(({ emptyDir }) => parseBytes(emptyDir?.sizeLimit))))
  );
}

export function sumUsage({ volumes, containers }: PodUsage): number {
  return sum(volumes.values()) + sum(containers.values());
}

const SIZE_UNITS = ["Gi", "Mi", "Ki"] as const;
const UNIT_BYTES = { Gi: 2 ** 30, Mi: 2 ** 20, Ki: 2 ** 10 } as const;

/** Formats a size in bytes, for example as `12.3Mi`. */
export function printBytes(bytes: number): string {
  const unit = SIZE_UNITS.find((one) => bytes >= UNIT_BYTES[one]);
  if (unit === undefined) return String(Math.ceil(bytes));
  return `${String(Math.round((bytes / UNIT_BYTES[unit]) * 10) / 10)}${unit}`;
}

function findVolumeViolation({ spec }: Pod, { volumes }: PodUsage): string | undefined {
  const violator = (spec.volumes ?? []).filter(isOnDisk).find(({ name, emptyDir }) => {
    const limit = parseBytes(emptyDir?.sizeLimit);
    return limit > 0 && (volumes.get(name) ?? 0) > limit;
  });
  if (violator === undefined) return undefined;
  const usedSize = printBytes(volumes.get(violator.name) ?? 0);
  return `Usage of EmptyDir volume "${violator.name}" (${usedSize}) exceeds the limit "${violator.emptyDir?.sizeLimit ?? ""}".`;
}

function findContainerViolation({ spec }: Pod, { containers }: PodUsage): string | undefined {
  const violator = spec.containers.find((one) => {
    const limit = parseContainerLimit(one);
    return limit > 0 && (containers.get(one.name) ?? 0) > limit;
  });
  if (violator === undefined) return undefined;
  const usedSize = printBytes(containers.get(violator.name) ?? 0);
  const limit = violator.resources?.limits?.["ephemeral-storage"] ?? "";
  return `Container ${violator.name} (${usedSize}) exceeded its local ephemeral storage limit "${limit}".`;
}

function describeLargest({ volumes, containers, growth = new Map() }: PodUsage): string {
  const amounts = [
    ...[...growth].map(([description, bytes]) => ({ what: description, bytes })),
    ...[...volumes].map(([name, bytes]) => ({ what: `volume "${name}"`, bytes })),
    ...[...containers].map(([name, bytes]) => ({ what: `container "${name}"`, bytes })),
  ];
  const largest = amounts.reduce((one, other) => (other.bytes > one.bytes ? other : one), {
    what: "",
    bytes: 0,
  });
  return `${largest.what} (${printBytes(largest.bytes)})`;
}

export function findLimitViolation(pod: Pod, usage: PodUsage): string | undefined {
  const violation = findVolumeViolation(pod, usage) ?? findContainerViolation(pod, usage);
  if (violation !== undefined) return violation;
  const [total, limit] = [sumUsage(usage), findStorageLimit(pod)];
  if (total <= limit) return undefined;
  return `Pod ephemeral local storage usage (${printBytes(total)}) exceeds its limit "${printBytes(limit)}"; most of it is in ${describeLargest(usage)}.`;
}

function computePressureBytes({ sizeBytes }: DiskSpace): number {
  return Math.min(sizeBytes * PRESSURE_SHARE, PRESSURE_BYTES);
}

export function isLow(disk: DiskSpace): boolean {
  return disk.freeBytes < computePressureBytes(disk);
}

/** Returns whether evicting the largest pod helps: its claims grew recently, or all pods together use at least the missing space. */
function doesEvictionHelp(
  largest: PodUsage,
  usages: readonly PodUsage[],
  disk: DiskSpace,
): boolean {
  if (sum(largest.growth?.values() ?? []) >= EVICTION_MIN_BYTES) return true;
  return sum(usages.map(sumUsage)) >= computePressureBytes(disk) - disk.freeBytes;
}

export function selectVictim(
  usages: ReadonlyMap<string, PodUsage>,
  disk: DiskSpace,
): { readonly uid: string; readonly message: string } | undefined {
  if (!isLow(disk)) return undefined;
  const candidates = [...usages].map(([uid, usage]) => {
    return { uid, usage, bytes: sumUsage(usage) + sum(usage.growth?.values() ?? []) };
  });
  const [largest] = candidates.sort((one, other) => other.bytes - one.bytes);
  if (largest === undefined || largest.bytes < EVICTION_MIN_BYTES) return undefined;
  if (!doesEvictionHelp(largest.usage, [...usages.values()], disk)) return undefined;
  const message = `The node was low on resource: ephemeral-storage. ${printBytes(disk.freeBytes)} of ${printBytes(disk.sizeBytes)} were left, and this pod used most (${printBytes(largest.bytes)}); most of it is in ${describeLargest(largest.usage)}.`;
  return { uid: largest.uid, message };
}

export function isWalkDue(
  lastWalk: Walk | undefined,
  currentSpace: DiskSpace & { readonly atMs: number },
): boolean {
  if (lastWalk === undefined) return true;
  const elapsedMs = currentSpace.atMs - lastWalk.atMs;
  if (elapsedMs < WALK_INTERVAL_MIN_MS) return false;
  const writtenBytes = lastWalk.freeBytes - currentSpace.freeBytes;
  return (
    writtenBytes >= Math.max(lastWalk.headroomBytes / 2, NORMAL_WRITES_BYTES) ||
    isLow(currentSpace) ||
    elapsedMs >= WALK_INTERVAL_MAX_MS
  );
}

export function computeHeadroomBytes(pod: Pod, usage: PodUsage): number {
  const volumes = (pod.spec.volumes ?? []).filter(isOnDisk).flatMap(({ name, emptyDir }) => {
    const limit = parseBytes(emptyDir?.sizeLimit);
    return limit > 0 ? [limit - (usage.volumes.get(name) ?? 0)] : [];
  });
  return Math.max(Math.min(...volumes, findStorageLimit(pod) - sumUsage(usage)), 0);
}
