// SPDX-License-Identifier: Apache-2.0
import type { Container, Pod, Probe } from "@patchbay/api/kubernetes";
import type { EventRecorder } from "@patchbay/kube";
import type { Clock, Logger } from "@patchbay/base";
import type { ContainerRuntime } from "@patchbay/core/interfaces";
import pLimit from "p-limit";
import type { LimitFunction } from "p-limit";
import type { ProbedContainer, Probes } from "../pods/deps.ts";
import { listPodContainers, findReportedStatus, type ContainerHealth } from "../pods/facts.ts";
import { runProbe, type ProbeReport, toProbeRequest } from "./run-probe.ts";
import {
  createProbeState,
  deriveHealth,
  isProbeDue,
  isSameHealth,
  updateProbeState,
  PROBE_KINDS,
  findProbe,
  parseProbeSettings,
  type ProbeKind,
  type ProbeState,
} from "./probe-state.ts";

/** Maximum number of concurrent probes per pod, which limits the load on the node. */
const CONCURRENT_PROBES = 10;

export interface ProbeDeps {
  readonly runtime: Pick<ContainerRuntime, "execSync">;
  readonly clock: Clock;
  readonly log: Logger;
  readonly recorder: EventRecorder;
  /** Address of the node, at which pods with host network are probed. */
  readonly hostIp: string;
  readonly wake: (uid: string) => void;
}

interface ProbedRun {
  readonly uid: string;
  readonly spec: Container;
  readonly stop: AbortController;
  readonly states: Map<ProbeKind, ProbeState>;
  readonly limit: LimitFunction;
  probed: ProbedContainer;
}

function findContainer({ pod, container }: ProbedContainer): Container | undefined {
  return listPodContainers(pod).find(({ name }) => name === container.name);
}

/**
 * Creates the initial states of a run's probes. Liveness starts as success. Startup and readiness start as success only if the pod's status
 * already reports this run as started or ready.
 */
function restoreStates(pod: Pod, { containerId, spec }: { containerId: string; spec: Container }) {
  const reportedStatus = findReportedStatus({ pod }, spec.name);
  const isSameRun = reportedStatus?.containerID?.endsWith(containerId) === true;
  const countsAsSuccess: Readonly<Record<ProbeKind, boolean>> = {
    startup: isSameRun && reportedStatus.started === true,
    liveness: true,
    readiness: isSameRun && reportedStatus.ready,
  };
  const kinds = PROBE_KINDS.filter((kind) => findProbe(spec, kind) !== undefined);
  return new Map(kinds.map((kind) => [kind, createProbeState(countsAsSuccess[kind])]));
}

class ContainerProbes implements Probes {
  readonly #deps: ProbeDeps;
  readonly #watched = new Map<string, Map<string, ProbedRun>>();
  readonly #limits = new Map<string, LimitFunction>();

  constructor(deps: ProbeDeps, signal: AbortSignal) {
    this.#deps = deps;
    signal.addEventListener("abort", () => {
      for (const uid of [...this.#watched.keys()]) this.retain(uid, []);
    });
  }

  retain(uid: string, containers: readonly ProbedContainer[]): void {
    const previousRuns = this.#watched.get(uid) ?? new Map<string, ProbedRun>();
    const retainedRuns = new Map<string, ProbedRun>();
    for (const probed of containers) {
      const { id } = probed.container;
      const run = previousRuns.get(id) ?? this.#startProbing(uid, probed);
      if (run === undefined) continue;
      run.probed = probed;
      retainedRuns.set(id, run);
    }
    for (const [id, { stop }] of previousRuns) if (!retainedRuns.has(id)) stop.abort();
    if (retainedRuns.size === 0) {
      this.#watched.delete(uid);
      this.#limits.delete(uid);
    } else this.#watched.set(uid, retainedRuns);
  }

  findHealth(uid: string): ReadonlyMap<string, ContainerHealth> {
    const run = this.#watched.get(uid) ?? new Map<string, ProbedRun>();
    return new Map([...run].map(([id, { states }]) => [id, deriveHealth(states)]));
  }

  #startProbing(uid: string, probed: ProbedContainer): ProbedRun | undefined {
    const spec = findContainer(probed);
    if (spec === undefined) return undefined;
    const states = restoreStates(probed.pod, { containerId: probed.container.id, spec });
    if (states.size === 0) return undefined;
    const limit = this.#limits.get(uid) ?? pLimit(CONCURRENT_PROBES);
    this.#limits.set(uid, limit);
    const run: ProbedRun = { uid, spec, stop: new AbortController(), states, limit, probed };
    for (const kind of states.keys()) {
      const probe = findProbe(spec, kind);
      if (probe === undefined) continue;
      this.#runPeriodically(run, kind, probe).catch((error: unknown) => {
        if (run.stop.signal.aborted) return;
        this.#deps.log.error("probe ended", { uid, container: spec.name, kind, err: error });
      });
    }
    return run;
  }

  async #runPeriodically(run: ProbedRun, kind: ProbeKind, probe: Probe): Promise<void> {
    const { clock } = this.#deps;
    const { signal } = run.stop;
    const settings = parseProbeSettings(probe);
    const startedMs = Number(run.probed.container.startedAt / 1_000_000n);
    await clock.sleep(Math.max(0, startedMs + settings.initialDelayMs - clock.now()), signal);
    while (!signal.aborted) {
      const probeStartMs = clock.monotonicMs();
      if (isProbeDue(kind, run.states)) await this.#runOnce(run, kind, probe);
      const durationMs = clock.monotonicMs() - probeStartMs;
      await clock.sleep(Math.max(0, settings.periodMs - durationMs), signal);
    }
  }

  async #runOnce(run: ProbedRun, kind: ProbeKind, probe: Probe): Promise<void> {
    const { probed, spec, states, stop, limit } = run;
    const { pod, podIps, container } = probed;
    const isOnNode = pod.spec.hostNetwork === true;
    const addresses = { ips: isOnNode ? [this.#deps.hostIp] : podIps, isOnNode };
    const settings = parseProbeSettings(probe);
    const target = { containerId: container.id, timeoutSeconds: settings.timeoutSeconds };
    const probeOutcome = await limit(() =>
      runProbe(this.#deps.runtime, toProbeRequest(probe, spec, addresses), target),
    );
    const previousState = states.get(kind);
    if (stop.signal.aborted || previousState === undefined) return;
    const healthBefore = deriveHealth(states);
    const state = updateProbeState(previousState, probeOutcome.outcome, settings);
    states.set(kind, state);
    if (state.lastResult === "failure" && state.streak === 1)
      this.#recordFailure(run, kind, probeOutcome);
    if (!isSameHealth(healthBefore, deriveHealth(states))) this.#deps.wake(run.uid);
  }

  #recordFailure({ probed, spec }: ProbedRun, kind: ProbeKind, { message }: ProbeReport): void {
    const name = `${kind.charAt(0).toUpperCase()}${kind.slice(1)}`;
    const about = `container ${spec.name}`;
    const text = `${name} probe failed: ${message}`;
    this.#deps.recorder.record(probed.pod, {
      type: "Warning",
      reason: "Unhealthy",
      message: text,
      about,
    });
  }
}

export function createProbes(deps: ProbeDeps, signal: AbortSignal): Probes {
  return new ContainerProbes(deps, signal);
}
