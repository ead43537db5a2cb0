// SPDX-License-Identifier: Apache-2.0
// How far a filling pod is, and why its last attempt failed. Pure.
import type { ContainerStateDetails, ContainerStatus, Pod } from "@patchbay/api";
import { FILL_CONTAINER } from "./filler-pod.ts";

/** Progress of a claim that is being filled. */
export interface FillProgress {
  readonly phase: "Pending" | "Running" | "Succeeded";
  /** Whether the last attempt failed; it is tried again. */
  readonly isFailing: boolean;
  /** The cause of a failure or of a wait; empty otherwise. */
  readonly message: string;
}

/** Reasons of a container that only waits for its turn. Source: kubelet. */
const STARTING: readonly string[] = ["ContainerCreating", "PodInitializing"];

const RUNNING: FillProgress = { phase: "Running", isFailing: false, message: "" };

function endOf({ terminated }: ContainerStateDetails = {}): string | undefined {
  if (terminated === undefined || terminated.exitCode === 0) return undefined;
  const { message = "", reason = "", exitCode } = terminated;
  const text = message.trim();
  return text === "" ? `${reason === "" ? "" : `${reason}, `}exit code ${String(exitCode)}` : text;
}

function lastEndOf({ state, lastState }: Partial<ContainerStatus>): string | undefined {
  return endOf(state) ?? endOf(lastState);
}

function pending(pod: Pod): FillProgress {
  const condition = pod.status?.conditions?.find(({ type }) => type === "PodScheduled");
  const message = condition?.status === "False" ? (condition.message ?? "") : "";
  return { phase: "Pending", isFailing: false, message };
}

function failing(phase: "Pending" | "Running", message: string): FillProgress {
  return { phase, isFailing: true, message };
}

function joined(...parts: readonly (string | undefined)[]): string {
  return parts.filter((part) => part !== undefined && part !== "").join(": ");
}

/** Of a pod that has not ended. */
function unfinished(pod: Pod, { state }: Partial<ContainerStatus>, end: string | undefined) {
  if (state?.running !== undefined) return RUNNING;
  if (end !== undefined) return failing("Running", end);
  const { reason = "", message } = state?.waiting ?? {};
  if (reason === "" || STARTING.includes(reason)) return pending(pod);
  return failing("Pending", joined(reason, message));
}

/** The progress that the pod's status shows. */
export function progressOf(pod: Pod): FillProgress {
  const { phase, message, reason, containerStatuses = [] } = pod.status ?? {};
  if (phase === "Succeeded") return { phase, isFailing: false, message: "" };
  const container = containerStatuses.find(({ name }) => name === FILL_CONTAINER) ?? {};
  const end = lastEndOf(container);
  if (phase === "Failed") return failing("Pending", end ?? joined(reason, message));
  return unfinished(pod, container, end);
}
