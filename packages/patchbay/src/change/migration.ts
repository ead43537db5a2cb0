// SPDX-License-Identifier: Apache-2.0
// Where is the migration that was asked for, and what came of it? Pure.
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

/** The first that was not there before the request. */
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

/** How far it is, for people: of what is there, how much needs not go any more, how fast the rest goes, and when it would be there. */
export function printProgress(progress: Progress): string {
  const { dataTotalBytes = 0, dataRemainingBytes = 0 } = progress;
  if (dataTotalBytes === 0) return "";
  const there = Math.max(0, dataTotalBytes - dataRemainingBytes) / dataTotalBytes;
  return `${String(Math.floor(there * PER_CENT))} %${remaining(progress)}`;
}

/** What is told of its progress while it runs; of another migration of the VMI nothing. */
function progressOf(migration: VirtualMachineInstanceMigration, { vmi }: Seen): string {
  const { migrationUid, mode, progress = {} } = vmi?.status?.migrationState ?? {};
  const isTold = migration.status?.phase === "Running" && migrationUid === uidOf(migration);
  if (!isTold) return "";
  const still = mode === "Paused" ? "it stands still for the rest of its way" : "";
  return [printProgress(progress), still].filter((text) => text !== "").join("; ");
}

/** Why the target's pod is not ready yet; of another migration of the VMI nothing. */
function hindranceOf(migration: VirtualMachineInstanceMigration, { vmi }: Seen): string {
  const { migrationUid, targetAttachments = [] } = vmi?.status?.migrationState ?? {};
  const isTold = migration.status?.phase === "PreparingTarget" && migrationUid === uidOf(migration);
  const failed = targetAttachments.filter(({ state }) => isTold && state === "Failed");
  return failed.map(({ name, message = "" }) => `interface ${name}: ${message}`).join("; ");
}

/** Why its guest stands still at its target; empty: it does not. */
function heldBy({ status }: VirtualMachineInstanceMigration): string {
  const held = status?.conditions?.find(({ type }) => type === GUEST_HELD);
  return held?.message ?? "";
}

/** Its phase, and how far it is, or what is in its way. */
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

/** Those that can be cancelled. */
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
