// SPDX-License-Identifier: Apache-2.0
// Runs the probes of running containers, and wakes pods whose health changed.
import type { Container, Pod, Probe } from "@patchbay/api";
import type { EventRecorder } from "@patchbay/kube";
import type { Clock, Logger } from "@patchbay/base";
import type { ContainerRuntime } from "@patchbay/core/interfaces";
import pLimit from "p-limit";
import type { LimitFunction } from "p-limit";
import type { ProbedContainer, Probes } from "../pods/deps.ts";
import { listPodContainers, statusBefore, type ContainerHealth } from "../pods/facts.ts";
import { runProbe, type ProbeReport, toProbeRequest } from "./run-probe.ts";
import {
  firstProbeState,
  deriveHealth,
  isProbeDue,
  isSameHealth,
  nextProbeState,
  PROBE_KINDS,
  findProbe,
  parseProbeSettings,
  type ProbeKind,
  type ProbeState,
} from "./probe-state.ts";

/** Concurrent probes per pod, because tenants define any number of probes and the node executes them. */
const CONCURRENT_PROBES = 10;

export interface ProbeDeps {
  readonly runtime: Pick<ContainerRuntime, "execSync">;
  readonly clock: Clock;
  readonly log: Logger;
  readonly recorder: EventRecorder;
  /** For pods with host network. */
  readonly hostIp: string;
  readonly wake: (uid: string) => void;
}

interface Watched {
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

/** Restores the results that the pod's status reports for this run. */
function restoreStates(pod: Pod, { container, spec }: { container: string; spec: Container }) {
  const before = statusBefore({ pod }, spec.name);
  const isSameRun = before?.containerID?.endsWith(container) === true;
  const known: Readonly<Record<ProbeKind, boolean>> = {
    startup: isSameRun && before.started === true,
    liveness: true,
    readiness: isSameRun && before.ready,
  };
  const kinds = PROBE_KINDS.filter((kind) => findProbe(spec, kind) !== undefined);
  return new Map(kinds.map((kind) => [kind, firstProbeState(known[kind])]));
}

class ContainerProbes implements Probes {
  readonly #deps: ProbeDeps;
  readonly #watched = new Map<string, Map<string, Watched>>();
  readonly #limits = new Map<string, LimitFunction>();

  constructor(deps: ProbeDeps, signal: AbortSignal) {
    this.#deps = deps;
    signal.addEventListener("abort", () => {
      for (const uid of [...this.#watched.keys()]) this.retain(uid, []);
    });
  }

  retain(uid: string, containers: readonly ProbedContainer[]): void {
    const before = this.#watched.get(uid) ?? new Map<string, Watched>();
    const retained = new Map<string, Watched>();
    for (const probed of containers) {
      const { id } = probed.container;
      const watched = before.get(id) ?? this.#startProbing(uid, probed);
      if (watched === undefined) continue;
      watched.probed = probed;
      retained.set(id, watched);
    }
    for (const [id, { stop }] of before) if (!retained.has(id)) stop.abort();
    if (retained.size === 0) {
      this.#watched.delete(uid);
      this.#limits.delete(uid);
    } else this.#watched.set(uid, retained);
  }

  findHealth(uid: string): ReadonlyMap<string, ContainerHealth> {
    const watched = this.#watched.get(uid) ?? new Map<string, Watched>();
    return new Map([...watched].map(([id, { states }]) => [id, deriveHealth(states)]));
  }

  #startProbing(uid: string, probed: ProbedContainer): Watched | undefined {
    const spec = findContainer(probed);
    if (spec === undefined) return undefined;
    const states = restoreStates(probed.pod, { container: probed.container.id, spec });
    if (states.size === 0) return undefined;
    const limit = this.#limits.get(uid) ?? pLimit(CONCURRENT_PROBES);
    this.#limits.set(uid, limit);
    const watched: Watched = { uid, spec, stop: new AbortController(), states, limit, probed };
    for (const kind of states.keys()) {
      const probe = findProbe(spec, kind);
      if (probe === undefined) continue;
      this.#runPeriodically(watched, kind, probe).catch((error: unknown) => {
        if (watched.stop.signal.aborted) return;
        this.#deps.log.error("probe ended", { uid, container: spec.name, kind, err: error });
      });
    }
    return watched;
  }

  async #runPeriodically(watched: Watched, kind: ProbeKind, probe: Probe): Promise<void> {
    const { clock } = this.#deps;
    const { signal } = watched.stop;
    const settings = parseProbeSettings(probe);
    const startedMs = Number(watched.probed.container.startedAt / 1_000_000n);
    await clock.sleep(Math.max(0, startedMs + settings.initialDelayMs - clock.now()), signal);
    while (!signal.aborted) {
      const beganMs = clock.monotonicMs();
      if (isProbeDue(kind, watched.states)) await this.#runOnce(watched, kind, probe);
      const tookMs = clock.monotonicMs() - beganMs;
      await clock.sleep(Math.max(0, settings.periodMs - tookMs), signal);
    }
  }

  async #runOnce(watched: Watched, kind: ProbeKind, probe: Probe): Promise<void> {
    const { probed, spec, states, stop, limit } = watched;
    const { pod, podIps, container } = probed;
    const isOnNode = pod.spec.hostNetwork === true;
    const addresses = { ips: isOnNode ? [this.#deps.hostIp] : podIps, isOnNode };
    const settings = parseProbeSettings(probe);
    const target = { containerId: container.id, timeoutSeconds: settings.timeoutSeconds };
    const probeOutcome = await limit(() =>
      runProbe(this.#deps.runtime, toProbeRequest(probe, spec, addresses), target),
    );
    const before = states.get(kind);
    if (stop.signal.aborted || before === undefined) return;
    const healthBefore = deriveHealth(states);
    const state = nextProbeState(before, probeOutcome.outcome, settings);
    states.set(kind, state);
    if (state.last === "failure" && state.streak === 1)
      this.#recordFailure(watched, kind, probeOutcome);
    if (!isSameHealth(healthBefore, deriveHealth(states))) this.#deps.wake(watched.uid);
  }

  /** Records one event per series of failures. */
  #recordFailure({ probed, spec }: Watched, kind: ProbeKind, { message }: ProbeReport): void {
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
