// SPDX-License-Identifier: Apache-2.0
// What do the answers of a container's probes make of it? Pure. Source: Kubernetes kubelet, prober/worker.go.
import type { Container, Probe } from "@patchbay/api";
import type { ContainerHealth } from "../pods/facts.ts";

/** Startup is asked until it succeeds; the others begin then. */
export type ProbeKind = "startup" | "liveness" | "readiness";

/** What a probe has said; `unknown`: it could not be asked, which counts for nothing. */
export type ProbeResult = "success" | "failure" | "unknown";

/** How a probe is asked, and how often it must say the same to be believed. */
export interface ProbeSettings {
  readonly initialDelayMs: number;
  readonly periodMs: number;
  readonly timeoutSeconds: number;
  readonly successThreshold: number;
  readonly failureThreshold: number;
}

/** One probe so far. */
export interface ProbeState {
  /** What is believed; undefined: nothing yet. */
  readonly isSuccess: boolean | undefined;
  readonly last: "success" | "failure" | undefined;
  /** How often `last` was said in a row. */
  readonly streak: number;
}

/** The probes that a container has, in the order in which they matter. */
export const PROBE_KINDS: readonly ProbeKind[] = ["startup", "liveness", "readiness"];

/** The states of a container's probes; kinds that it has not are absent. */
export type ProbeStates = ReadonlyMap<ProbeKind, ProbeState>;

/** The probe of that kind. */
export function probeOf(container: Container, kind: ProbeKind): Probe | undefined {
  return container[`${kind}Probe`];
}

/** The settings with Kubernetes' defaults. */
export function probeSettingsOf(probe: Probe): ProbeSettings {
  const { initialDelaySeconds = 0, periodSeconds = 10, timeoutSeconds = 1 } = probe;
  return {
    initialDelayMs: initialDelaySeconds * 1000,
    periodMs: Math.max(periodSeconds, 1) * 1000,
    timeoutSeconds: Math.max(timeoutSeconds, 1),
    successThreshold: Math.max(probe.successThreshold ?? 1, 1),
    failureThreshold: Math.max(probe.failureThreshold ?? 3, 1),
  };
}

/** A probe that was never asked. `isKnown`: an earlier process of this node believed it to pass. */
export function firstProbeState(isKnown: boolean): ProbeState {
  return { isSuccess: isKnown ? true : undefined, last: undefined, streak: 0 };
}

/** The state after one more answer: what is believed changes when it was said often enough in a row. */
export function nextProbeState(
  state: ProbeState,
  outcome: ProbeResult,
  { successThreshold, failureThreshold }: ProbeSettings,
): ProbeState {
  if (outcome === "unknown") return state;
  const streak = state.last === outcome ? state.streak + 1 : 1;
  const isBelieved = streak >= (outcome === "success" ? successThreshold : failureThreshold);
  const isSuccess = isBelieved ? outcome === "success" : state.isSuccess;
  return { isSuccess, last: outcome, streak };
}

/** Whether a probe is asked now: before the start only its own, afterwards all but that; none when it is to be ended. */
export function isProbeDue(kind: ProbeKind, states: ProbeStates): boolean {
  const { isStarted, isUnhealthy } = healthFrom(states);
  return !isUnhealthy && (kind === "startup") !== isStarted;
}

/** What the container is. A probe that it has not passes; readiness that was not asked does not. */
export function healthFrom(states: ProbeStates): ContainerHealth {
  const succeeds = (kind: ProbeKind): boolean | undefined =>
    states.has(kind) ? states.get(kind)?.isSuccess : true;
  const isStarted = succeeds("startup") === true;
  return {
    isStarted,
    isReady: isStarted && succeeds("readiness") === true,
    isUnhealthy: succeeds("startup") === false || succeeds("liveness") === false,
  };
}

/** Whether it says anything new. */
export function isSameHealth(one: ContainerHealth, other: ContainerHealth): boolean {
  return (
    one.isStarted === other.isStarted &&
    one.isReady === other.isReady &&
    one.isUnhealthy === other.isUnhealthy
  );
}
