// SPDX-License-Identifier: Apache-2.0
// How far is a guest that leaves? As its libvirt tells, noted at each look, and told now and then while it moves.
import { moveFamilies, moveLimitsOf, type MetricFamily } from "@patchbay/core";
import type { JobStats } from "@patchbay/core/ports";
import type { Deps } from "../deps.ts";
import { reportMove } from "./report-move.ts";
import type { Departure } from "./send-away.ts";

/** How often it is told at most, and looked at, milliseconds. */
export const PROGRESS_MS = 2_000;

/** What came over last, and since when nothing more has. */
export function noteJob({ migration, move, deps }: Departure, job: JobStats): void {
  const isMoving = job.state === "running" && job.move === "out";
  const nowMs = deps.clock.monotonicMs();
  if (move.progressMs === undefined || job.processedBytes !== move.job?.processedBytes) {
    move.progressMs = nowMs;
  }
  move.isStalled = isMoving && nowMs - move.progressMs >= moveLimitsOf(migration).silenceMs;
  move.job = isMoving ? job : undefined;
}

/** One write at most, and none sooner than a while after the last. */
export async function tellProgress({ vmi, move, deps }: Departure): Promise<void> {
  const { job, toldMs } = move;
  const nowMs = deps.clock.monotonicMs();
  if (job === undefined || (toldMs !== undefined && nowMs - toldMs < PROGRESS_MS)) return;
  const { totalBytes, processedBytes, remainingBytes, memoryBytesPerSecond } = job;
  const progress = {
    ...(totalBytes !== undefined && { dataTotalBytes: totalBytes }),
    ...(processedBytes !== undefined && { dataProcessedBytes: processedBytes }),
    ...(remainingBytes !== undefined && { dataRemainingBytes: remainingBytes }),
    ...(memoryBytesPerSecond !== undefined && { memoryBytesPerSecond }),
  };
  move.toldMs = nowMs;
  await reportMove(vmi, { progress }, { deps });
}

/** The same for whoever asks for metrics: of the guests that leave this node now. */
export function createMoveSource({
  vmis,
  moves,
  nodeName,
}: Pick<Deps, "vmis" | "moves" | "nodeName">): () => Promise<readonly MetricFamily[]> {
  return () => {
    const leaving = vmis.list().flatMap((vmi) => {
      const job = moves.jobOf(vmi.metadata.uid ?? "");
      return job === undefined ? [] : [{ vmi, job }];
    });
    return Promise.resolve(moveFamilies(leaving, nodeName));
  };
}
