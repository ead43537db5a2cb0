// SPDX-License-Identifier: Apache-2.0
// Is a container that ended started again, and when? Pure: how long a start was put off is written on the container.
import type { Pod } from "@patchbay/api";
import { RESTART_DELAY_ANNOTATION } from "../../translate/labels.ts";
import type { ContainerFacts } from "../facts.ts";

/** Source: Kubernetes kubelet, MaxContainerBackOff and its first step. */
const FIRST_SECONDS = 10;
const MAX_SECONDS = 300;
/** A container that ran so long has recovered, milliseconds. Source: Kubernetes kubelet, twice MaxContainerBackOff. */
const RECOVERED_MS = 600_000;

/** Milliseconds since 1970 of a runtime's time. */
export function millisecondsOf(nanoseconds: bigint): number {
  return Number(nanoseconds / 1_000_000n);
}

/** How a container ended; `container` is absent where nobody saw it. */
export interface End {
  readonly exitCode: number;
  readonly container?: ContainerFacts;
}

/**
 * What containerd says of a start that ends with the call that asked for it: it waited for something, or for the shim's
 * program, which it kills then. Source: Go's context, and os/exec CommandContext, in containerd's CRI plugin StartContainer.
 */
const CUT_OFF = /context canceled|failed to start shim: .*signal: killed/s;

/** Whether the start was cut off with the call that asked for it, by the death of this process: its program never ran. */
function wasCutOff({ reason, message, startedAt }: ContainerFacts): boolean {
  return startedAt === 0n && reason === "StartError" && CUT_OFF.test(message);
}

/** Whether a container that ended so is to run again; init containers end with 0 once. */
export function isToRestart({ spec }: Pod, end: End, isInit: boolean): boolean {
  const { exitCode, container } = end;
  if (container !== undefined && wasCutOff(container)) return true;
  const policy = spec.restartPolicy ?? "Always";
  if (policy === "Never") return false;
  return exitCode !== 0 || (policy === "Always" && !isInit);
}

/** How long the next start is put off after the end of this container, seconds: 0, 10, 20, 40 … 300. */
export function restartDelayOf(ended: ContainerFacts): number {
  const text = ended.annotations[RESTART_DELAY_ANNOTATION];
  const before = Number(text ?? "0");
  if (text === undefined || !Number.isFinite(before)) return 0;
  const ranMs = millisecondsOf(ended.finishedAt - ended.startedAt);
  if (ended.startedAt > 0n && ranMs >= RECOVERED_MS) return 0;
  return Math.min(Math.max(2 * before, FIRST_SECONDS), MAX_SECONDS);
}

/** How long from now until the next start, milliseconds; 0: now. */
export function restartWaitMs(ended: ContainerFacts, nowMs: number): number {
  const dueMs = millisecondsOf(ended.finishedAt) + restartDelayOf(ended) * 1000;
  // A clock that was set back must not make it wait longer than it should.
  return Math.min(Math.max(dueMs - nowMs, 0), MAX_SECONDS * 1000);
}
