// SPDX-License-Identifier: Apache-2.0
// Progress and result of the migration that a command has requested.
import {
  isMigrationFinal,
  type MigrationState,
  type VirtualMachineInstanceMigration,
} from "@patchbay/api";
import { GUEST_PAUSED_ON_TARGET } from "@patchbay/core/migration";
import { printSize } from "../print/size.ts";
import { type VmiState, type Stage, isGuestRunning, type Verdict } from "./progress.ts";

const PERCENT_FACTOR = 100;

function uidOf({ metadata }: VirtualMachineInstanceMigration): string {
  return metadata.uid ?? "";
}

function findRequested(
  now: VmiState,
  first: VmiState,
): VirtualMachineInstanceMigration | undefined {
  const before = new Set(first.migrations?.map(uidOf));
  return now.migrations?.find((migration) => !before.has(uidOf(migration)));
}

function printRemaining({ dataRemainingBytes = 0, memoryBytesPerSecond = 0 }: Progress): string {
  if (memoryBytesPerSecond === 0) return "";
  const seconds = Math.ceil(dataRemainingBytes / memoryBytesPerSecond);
  return `, ${printSize(memoryBytesPerSecond)}/s, about ${String(seconds)} s left`;
}

type Progress = NonNullable<MigrationState["progress"]>;

export function printProgress(progress: Progress): string {
  const { dataTotalBytes = 0, dataRemainingBytes = 0 } = progress;
  if (dataTotalBytes === 0) return "";
  const transferred = Math.max(0, dataTotalBytes - dataRemainingBytes) / dataTotalBytes;
  return `${String(Math.floor(transferred * PERCENT_FACTOR))} %${printRemaining(progress)}`;
}

function describeProgress(migration: VirtualMachineInstanceMigration, { vmi }: VmiState): string {
  const { migrationUid, mode, progress = {} } = vmi?.status?.migrationState ?? {};
  const isCurrent = migration.status?.phase === "Running" && migrationUid === uidOf(migration);
  if (!isCurrent) return "";
  const pausedNote = mode === "Paused" ? "the guest is paused for the rest of the migration" : "";
  return [printProgress(progress), pausedNote].filter((text) => text !== "").join("; ");
}

/** Describes the failed attachments of the target pod while the target is being prepared. Otherwise returns an empty string. */
function describeTargetProblem(
  migration: VirtualMachineInstanceMigration,
  { vmi }: VmiState,
): string {
  const { migrationUid, targetAttachments = [] } = vmi?.status?.migrationState ?? {};
  const isCurrent =
    migration.status?.phase === "PreparingTarget" && migrationUid === uidOf(migration);
  const failed = targetAttachments.filter(({ state }) => isCurrent && state === "Failed");
  return failed.map(({ name, message = "" }) => `interface ${name}: ${message}`).join("; ");
}

/** Returns why the guest is paused on its target node; empty if the guest is not paused. */
function describePause({ status }: VirtualMachineInstanceMigration): string {
  const condition = status?.conditions?.find(({ type }) => type === GUEST_PAUSED_ON_TARGET);
  return condition?.message ?? "";
}

export function findMigrationStage(now: VmiState, first: VmiState): Stage {
  const migration = findRequested(now, first);
  if (migration === undefined) return undefined;
  const phase = migration.status?.phase ?? "";
  const message =
    describePause(migration) ||
    describeProgress(migration, now) ||
    describeTargetProblem(migration, now);
  return { phase: phase === "" ? "Pending" : phase, ...(message !== "" && { message }) };
}

function describeFailure({ metadata, status }: VirtualMachineInstanceMigration): string {
  const { failureReason = "" } = status?.migrationState ?? {};
  if (failureReason !== "") return failureReason;
  return metadata.deletionTimestamp === undefined
    ? `migration ${metadata.name} failed; see its events`
    : "it was canceled";
}

/** Returns the result of the requested migration. `waiting` means that the migration has not ended yet. */
export function findMigrationVerdict(now: VmiState, first: VmiState): Verdict {
  const migration = findRequested(now, first);
  if (migration?.status?.phase === "Succeeded") return { kind: "done" };
  if (migration?.status?.phase === "Failed") {
    return { kind: "failing", reason: describeFailure(migration) };
  }
  if (migration === undefined && !isGuestRunning(now.vmi)) {
    return { kind: "failing", reason: "the VM has stopped" };
  }
  return { kind: "waiting" };
}

export function findCancellable(
  migrations: readonly VirtualMachineInstanceMigration[],
  vmi: string,
): readonly VirtualMachineInstanceMigration[] {
  return migrations.filter(
    (migration) =>
      migration.spec.vmiName === vmi &&
      migration.metadata.deletionTimestamp === undefined &&
      !isMigrationFinal(migration),
  );
}
