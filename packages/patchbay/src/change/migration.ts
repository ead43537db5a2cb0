// SPDX-License-Identifier: Apache-2.0
// Progress and outcome of the migration that a command has requested. Pure.
import {
  isMigrationFinal,
  type MigrationState,
  type VirtualMachineInstanceMigration,
} from "@patchbay/api";
import { GUEST_HELD } from "@patchbay/core";
import { printSize } from "../print/size.ts";
import type { Seen, Stage } from "./steps.ts";
import { isGuestRunning, type Verdict } from "./verdict.ts";

const PER_CENT = 100;

function uidOf({ metadata }: VirtualMachineInstanceMigration): string {
  return metadata.uid ?? "";
}

/** The first migration that did not exist before the request. */
function askedFor(now: Seen, first: Seen): VirtualMachineInstanceMigration | undefined {
  const before = new Set(first.migrations?.map(uidOf));
  return now.migrations?.find((migration) => !before.has(uidOf(migration)));
}

function remaining({ dataRemainingBytes = 0, memoryBytesPerSecond = 0 }: Progress): string {
  if (memoryBytesPerSecond === 0) return "";
  const seconds = Math.ceil(dataRemainingBytes / memoryBytesPerSecond);
  return `, ${printSize(memoryBytesPerSecond)}/s, about ${String(seconds)} s left`;
}

type Progress = NonNullable<MigrationState["progress"]>;

/** Progress for people: percentage of the data that is transferred, transfer rate, and remaining time. */
export function printProgress(progress: Progress): string {
  const { dataTotalBytes = 0, dataRemainingBytes = 0 } = progress;
  if (dataTotalBytes === 0) return "";
  const there = Math.max(0, dataTotalBytes - dataRemainingBytes) / dataTotalBytes;
  return `${String(Math.floor(there * PER_CENT))} %${remaining(progress)}`;
}

/** Progress of the migration while it runs. Empty if the VMI's status describes another migration. */
function progressOf(migration: VirtualMachineInstanceMigration, { vmi }: Seen): string {
  const { migrationUid, mode, progress = {} } = vmi?.status?.migrationState ?? {};
  const isTold = migration.status?.phase === "Running" && migrationUid === uidOf(migration);
  if (!isTold) return "";
  const still = mode === "Paused" ? "it stands still for the rest of its way" : "";
  return [printProgress(progress), still].filter((text) => text !== "").join("; ");
}

/** Why the target pod is not ready yet. Empty if the VMI's status describes another migration. */
function hindranceOf(migration: VirtualMachineInstanceMigration, { vmi }: Seen): string {
  const { migrationUid, targetAttachments = [] } = vmi?.status?.migrationState ?? {};
  const isTold = migration.status?.phase === "PreparingTarget" && migrationUid === uidOf(migration);
  const failed = targetAttachments.filter(({ state }) => isTold && state === "Failed");
  return failed.map(({ name, message = "" }) => `interface ${name}: ${message}`).join("; ");
}

/** Why the guest is paused on its target node; empty if it is not. */
function heldBy({ status }: VirtualMachineInstanceMigration): string {
  const held = status?.conditions?.find(({ type }) => type === GUEST_HELD);
  return held?.message ?? "";
}

/** Phase of the migration, with its progress or what blocks it. */
export function migrationStage(now: Seen, first: Seen): Stage {
  const migration = askedFor(now, first);
  if (migration === undefined) return undefined;
  const phase = migration.status?.phase ?? "";
  const message = heldBy(migration) || progressOf(migration, now) || hindranceOf(migration, now);
  return { phase: phase === "" ? "Pending" : phase, ...(message !== "" && { message }) };
}

function whyFailed({ metadata, status }: VirtualMachineInstanceMigration): string {
  const { failureReason = "" } = status?.migrationState ?? {};
  if (failureReason !== "") return failureReason;
  return metadata.deletionTimestamp === undefined
    ? `migration ${metadata.name} has failed; its events say why`
    : "it was cancelled";
}

/** Done when the guest runs on the other node. */
export function migrationVerdict(now: Seen, first: Seen): Verdict {
  const migration = askedFor(now, first);
  if (migration?.status?.phase === "Succeeded") return { kind: "done" };
  if (migration?.status?.phase === "Failed") {
    return { kind: "failing", reason: whyFailed(migration) };
  }
  if (migration === undefined && !isGuestRunning(now.vmi)) {
    return { kind: "failing", reason: "the VM has stopped" };
  }
  return { kind: "waiting" };
}

/** Unfinished migrations of the VMI that are not being deleted. */
export function cancellable(
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
