// SPDX-License-Identifier: Apache-2.0
// Derives a container's health from probe results. Source: prober/worker.go of the kubelet.
import type { Container, Probe } from "@patchbay/api/kubernetes";
import type { ContainerHealth } from "../pods/facts.ts";

/** Kinds of probes. Liveness and readiness probes start after the startup probe has succeeded. */
export type ProbeKind = "startup" | "liveness" | "readiness";

/** Result of a probe. `unknown`, which is ignored, means that the probe could not be executed. */
export type ProbeResult = "success" | "failure" | "unknown";

export interface ProbeSettings {
  readonly initialDelayMs: number;
  readonly periodMs: number;
  readonly timeoutSeconds: number;
  readonly successThreshold: number;
  readonly failureThreshold: number;
}

export interface ProbeState {
  /** True after successThreshold was reached, false after failureThreshold. Initially true with `countsAsSuccess`, otherwise undefined. */
  readonly isSuccess: boolean | undefined;
  readonly lastResult: "success" | "failure" | undefined;
  readonly streak: number;
}

export const PROBE_KINDS: readonly ProbeKind[] = ["startup", "liveness", "readiness"];

export type ProbeStates = ReadonlyMap<ProbeKind, ProbeState>;

export function findProbe(container: Container, kind: ProbeKind): Probe | undefined {
  return container[`${kind}Probe`];
}

export function parseProbeSettings(probe: Probe): ProbeSettings {
  const { initialDelaySeconds = 0, periodSeconds = 10, timeoutSeconds = 1 } = probe;
  return {
    initialDelayMs: initialDelaySeconds * 1000,
    periodMs: Math.max(periodSeconds, 1) * 1000,
    timeoutSeconds: Math.max(timeoutSeconds, 1),
    successThreshold: Math.max(probe.successThreshold ?? 1, 1),
    failureThreshold: Math.max(probe.failureThreshold ?? 3, 1),
  };
}

/** Returns the initial state. With `countsAsSuccess`, the probe counts as successful until a threshold is reached. */
export function createProbeState(countsAsSuccess: boolean): ProbeState {
  return { isSuccess: countsAsSuccess ? true : undefined, lastResult: undefined, streak: 0 };
}

export function updateProbeState(
  state: ProbeState,
  outcome: ProbeResult,
  { successThreshold, failureThreshold }: ProbeSettings,
): ProbeState {
  if (outcome === "unknown") return state;
  const streak = state.lastResult === outcome ? state.streak + 1 : 1;
  const isThresholdReached =
    streak >= (outcome === "success" ? successThreshold : failureThreshold);
  const isSuccess = isThresholdReached ? outcome === "success" : state.isSuccess;
  return { isSuccess, lastResult: outcome, streak };
}

/** Returns whether the probe must run: the startup probe until it succeeds, the other probes afterwards, none on an unhealthy container. */
export function isProbeDue(kind: ProbeKind, states: ProbeStates): boolean {
  const { isStarted, isUnhealthy } = deriveHealth(states);
  return !isUnhealthy && (kind === "startup") !== isStarted;
}

/** Derives the health. A missing probe counts as success; a startup or readiness probe without a result does not. */
export function deriveHealth(states: ProbeStates): ContainerHealth {
  const succeeds = (kind: ProbeKind): boolean | undefined =>
    states.has(kind) ? states.get(kind)?.isSuccess : true;
  const isStarted = succeeds("startup") === true;
  return {
    isStarted,
    isReady: isStarted && succeeds("readiness") === true,
    isUnhealthy: succeeds("startup") === false || succeeds("liveness") === false,
  };
}

export function isSameHealth(one: ContainerHealth, other: ContainerHealth): boolean {
  return (
    one.isStarted === other.isStarted &&
    one.isReady === other.isReady &&
    one.isUnhealthy === other.isUnhealthy
  );
}
