// SPDX-License-Identifier: Apache-2.0
// How much of the node's disk may a pod use, does it use more, and when is that worth a look? Pure.
import { parseQuantity, type Container, type Pod, type PodVolume } from "@patchbay/api";

/** What a pod may put on the disk where its containers name no limit, besides volumes that name their own. */
export const DEFAULT_STORAGE_BYTES: number = 2 * 2 ** 30;
/** Below this share of the disk, or this many bytes if that is less, the pod that uses most has to go. */
const PRESSURE_SHARE = 0.05;
const PRESSURE_BYTES = 2 ** 30;
/** Whose end would free less than this is left alone. */
const WORTHWHILE_BYTES = 64 * 2 ** 20;
/** Trees are walked at least this often: what one pod writes may be hidden by what another one removes. */
const WALK_AT_LEAST_MS = 60_000;
/** And at most this often. */
const WALK_AT_MOST_MS = 10_000;

/** Less than this is written at any time by anybody. */
const WRITTEN_BYTES = 2 ** 20;

/** Bytes of one pod. */
export interface PodUsage {
  /** By name of the volume; those in memory are not there. */
  readonly volumes: ReadonlyMap<string, number>;
  /** Logs and changed files of its root, by name of the container. */
  readonly containers: ReadonlyMap<string, number>;
  /** What has grown by its doing and outlives it, in words for people: no limit of the pod's, but who fills the disk goes first. */
  readonly growth?: ReadonlyMap<string, number>;
}

/** The disk with the pods' directories. */
export interface DiskSpace {
  readonly sizeBytes: number;
  readonly freeBytes: number;
}

/** One look at the trees. */
export interface Walk {
  readonly atMs: number;
  readonly freeBytes: number;
  /** What the pod that is nearest to its limit may still write. */
  readonly headroomBytes: number;
}

function bytesOf(quantity: string | undefined): number {
  return quantity === undefined ? 0 : (parseQuantity(quantity) ?? 0);
}

function containerLimitOf({ resources }: Container): number {
  return bytesOf(resources?.limits?.["ephemeral-storage"]);
}

function isOnDisk({ emptyDir }: PodVolume): boolean {
  return emptyDir !== undefined && emptyDir.medium !== "Memory";
}

function sum(amounts: Iterable<number>): number {
  return [...amounts].reduce((total, one) => total + one, 0);
}

/** What the pod may have on the disk, bytes: what its containers may, else the default and what its volumes may. */
export function storageLimitOf({ spec }: Pod): number {
  const named = sum(spec.containers.map(containerLimitOf));
  if (named > 0) return Math.ceil(named);
  const volumes = (spec.volumes ?? []).filter(isOnDisk);
  return (
    DEFAULT_STORAGE_BYTES +
    Math.ceil(sum(volumes.map(({ emptyDir }) => bytesOf(emptyDir?.sizeLimit))))
  );
}

/** Everything together. */
export function totalOf({ volumes, containers }: PodUsage): number {
  return sum(volumes.values()) + sum(containers.values());
}

const UNITS = ["Gi", "Mi", "Ki"] as const;
const UNIT_BYTES = { Gi: 2 ** 30, Mi: 2 ** 20, Ki: 2 ** 10 } as const;

/** An amount for people, for example `12.3Mi`. */
export function printBytes(bytes: number): string {
  const unit = UNITS.find((one) => bytes >= UNIT_BYTES[one]);
  if (unit === undefined) return String(Math.ceil(bytes));
  return `${String(Math.round((bytes / UNIT_BYTES[unit]) * 10) / 10)}${unit}`;
}

function volumeFault({ spec }: Pod, { volumes }: PodUsage): string | undefined {
  const over = (spec.volumes ?? []).filter(isOnDisk).find(({ name, emptyDir }) => {
    const limit = bytesOf(emptyDir?.sizeLimit);
    return limit > 0 && (volumes.get(name) ?? 0) > limit;
  });
  if (over === undefined) return undefined;
  const used = printBytes(volumes.get(over.name) ?? 0);
  return `Usage of EmptyDir volume "${over.name}" (${used}) exceeds the limit "${over.emptyDir?.sizeLimit ?? ""}".`;
}

function containerFault({ spec }: Pod, { containers }: PodUsage): string | undefined {
  const over = spec.containers.find((one) => {
    const limit = containerLimitOf(one);
    return limit > 0 && (containers.get(one.name) ?? 0) > limit;
  });
  if (over === undefined) return undefined;
  const used = printBytes(containers.get(over.name) ?? 0);
  const limit = over.resources?.limits?.["ephemeral-storage"] ?? "";
  return `Container ${over.name} (${used}) exceeded its local ephemeral storage limit "${limit}".`;
}

/** What holds most, for example `volume "scratch" (1.5Gi)`. */
function mostOf({ volumes, containers, growth = new Map() }: PodUsage): string {
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

/** Why the pod has to go, in words for its user, with what is over its limit and both numbers; undefined: it has not. */
export function storageFault(pod: Pod, usage: PodUsage): string | undefined {
  const fault = volumeFault(pod, usage) ?? containerFault(pod, usage);
  if (fault !== undefined) return fault;
  const [total, limit] = [totalOf(usage), storageLimitOf(pod)];
  if (total <= limit) return undefined;
  return `Pod ephemeral local storage usage (${printBytes(total)}) exceeds its limit "${printBytes(limit)}"; most of it is in ${mostOf(usage)}.`;
}

function neededBytes({ sizeBytes }: DiskSpace): number {
  return Math.min(sizeBytes * PRESSURE_SHARE, PRESSURE_BYTES);
}

function isLow(disk: DiskSpace): boolean {
  return disk.freeBytes < neededBytes(disk);
}

/** Whether an end helps: that of who fills the disk stops it; others' ends only where all of them together free enough. */
function isHelpful(most: PodUsage, all: readonly PodUsage[], disk: DiskSpace): boolean {
  if (sum(most.growth?.values() ?? []) >= WORTHWHILE_BYTES) return true;
  return sum(all.map(totalOf)) >= neededBytes(disk) - disk.freeBytes;
}

/** The pod that uses most, while the disk is nearly full; undefined: it is not, or nobody's end would help. */
export function pressureVictim(
  usages: ReadonlyMap<string, PodUsage>,
  disk: DiskSpace,
): { readonly uid: string; readonly message: string } | undefined {
  if (!isLow(disk)) return undefined;
  const all = [...usages].map(([uid, usage]) => {
    return { uid, usage, bytes: totalOf(usage) + sum(usage.growth?.values() ?? []) };
  });
  const [most] = all.sort((one, other) => other.bytes - one.bytes);
  if (most === undefined || most.bytes < WORTHWHILE_BYTES) return undefined;
  if (!isHelpful(most.usage, [...usages.values()], disk)) return undefined;
  const message = `The node was low on resource: ephemeral-storage. ${printBytes(disk.freeBytes)} of ${printBytes(disk.sizeBytes)} were left, and this pod used most (${printBytes(most.bytes)}); most of it is in ${mostOf(most.usage)}.`;
  return { uid: most.uid, message };
}

/** Whether the trees are to be walked again: somebody may have reached a limit, the disk is low, or it is long ago. */
export function isWalkDue(
  last: Walk | undefined,
  now: DiskSpace & { readonly atMs: number },
): boolean {
  if (last === undefined) return true;
  const sinceMs = now.atMs - last.atMs;
  if (sinceMs < WALK_AT_MOST_MS) return false;
  const written = last.freeBytes - now.freeBytes;
  return (
    written >= Math.max(last.headroomBytes / 2, WRITTEN_BYTES) ||
    isLow(now) ||
    sinceMs >= WALK_AT_LEAST_MS
  );
}

/** What the pod may still write until a limit of its own is reached. */
export function headroomOf(pod: Pod, usage: PodUsage): number {
  const volumes = (pod.spec.volumes ?? []).filter(isOnDisk).flatMap(({ name, emptyDir }) => {
    const limit = bytesOf(emptyDir?.sizeLimit);
    return limit > 0 ? [limit - (usage.volumes.get(name) ?? 0)] : [];
  });
  return Math.max(Math.min(...volumes, storageLimitOf(pod) - totalOf(usage)), 0);
}
