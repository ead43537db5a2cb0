// SPDX-License-Identifier: Apache-2.0
// Asks the probes of the containers that run, each in its own time, and wakes pods whose health is another one.
import type { Container, Pod, Probe } from "@patchbay/api";
import type { EventRecorder } from "@patchbay/kube";
import type { Clock, ContainerRuntime, Logger } from "@patchbay/core/ports";
import pLimit, { type LimitFunction } from "p-limit";
import type { ProbedContainer, Probes } from "../pods/deps.ts";
import { containersOf, statusBefore, type ContainerHealth } from "../pods/facts.ts";
import { askContainer, type ProbeAnswer } from "./ask.ts";
import {
  firstProbeState,
  healthFrom,
  isProbeDue,
  isSameHealth,
  nextProbeState,
  PROBE_KINDS,
  probeOf,
  probeSettingsOf,
  type ProbeKind,
  type ProbeState,
} from "./probe-state.ts";
import { questionOf } from "./question.ts";

/** Probes of one pod that are asked at the same time: a tenant writes as many as he likes, and the node asks them. */
const AT_ONCE = 10;

/** What probes are asked with, and who hears of them. */
export interface ProbeDeps {
  readonly runtime: Pick<ContainerRuntime, "execSync">;
  readonly clock: Clock;
  readonly log: Logger;
  readonly recorder: EventRecorder;
  /** Address of the node, for pods in its network. */
  readonly hostIp: string;
  /** Told when the health of one of the pod's containers is news. */
  readonly wake: (uid: string) => void;
}

/** One run of a container whose probes are asked. */
interface Watched {
  readonly uid: string;
  readonly spec: Container;
  readonly stop: AbortController;
  readonly states: Map<ProbeKind, ProbeState>;
  /** The pod's. */
  readonly limit: LimitFunction;
  /** As it was last told. */
  probed: ProbedContainer;
}

function specOf({ pod, container }: ProbedContainer): Container | undefined {
  return containersOf(pod).find(({ name }) => name === container.name);
}

/** What the status says of this run: whoever wrote it believed it. */
function firstStates(pod: Pod, { container, spec }: { container: string; spec: Container }) {
  const before = statusBefore({ pod }, spec.name);
  const isSameRun = before?.containerID?.endsWith(container) === true;
  const known: Readonly<Record<ProbeKind, boolean>> = {
    startup: isSameRun && before.started === true,
    liveness: true,
    readiness: isSameRun && before.ready,
  };
  const kinds = PROBE_KINDS.filter((kind) => probeOf(spec, kind) !== undefined);
  return new Map(kinds.map((kind) => [kind, firstProbeState(known[kind])]));
}

class ContainerProbes implements Probes {
  readonly #deps: ProbeDeps;
  readonly #watched = new Map<string, Map<string, Watched>>();
  /** By uid of the pod; there as long as one of its containers is watched. */
  readonly #limits = new Map<string, LimitFunction>();

  constructor(deps: ProbeDeps, signal: AbortSignal) {
    this.#deps = deps;
    signal.addEventListener("abort", () => {
      for (const uid of [...this.#watched.keys()]) this.keep(uid, []);
    });
  }

  keep(uid: string, containers: readonly ProbedContainer[]): void {
    const before = this.#watched.get(uid) ?? new Map<string, Watched>();
    const kept = new Map<string, Watched>();
    for (const probed of containers) {
      const { id } = probed.container;
      const watched = before.get(id) ?? this.#begin(uid, probed);
      if (watched === undefined) continue;
      watched.probed = probed;
      kept.set(id, watched);
    }
    for (const [id, { stop }] of before) if (!kept.has(id)) stop.abort();
    if (kept.size === 0) {
      this.#watched.delete(uid);
      this.#limits.delete(uid);
    } else this.#watched.set(uid, kept);
  }

  healthOf(uid: string): ReadonlyMap<string, ContainerHealth> {
    const watched = this.#watched.get(uid) ?? new Map<string, Watched>();
    return new Map([...watched].map(([id, { states }]) => [id, healthFrom(states)]));
  }

  /** Undefined where the container has no probes. */
  #begin(uid: string, probed: ProbedContainer): Watched | undefined {
    const spec = specOf(probed);
    if (spec === undefined) return undefined;
    const states = firstStates(probed.pod, { container: probed.container.id, spec });
    if (states.size === 0) return undefined;
    const limit = this.#limits.get(uid) ?? pLimit(AT_ONCE);
    this.#limits.set(uid, limit);
    const watched: Watched = { uid, spec, stop: new AbortController(), states, limit, probed };
    for (const kind of states.keys()) {
      const probe = probeOf(spec, kind);
      if (probe === undefined) continue;
      this.#ask(watched, kind, probe).catch((error: unknown) => {
        if (watched.stop.signal.aborted) return;
        this.#deps.log.error("probe ended", { uid, container: spec.name, kind, err: error });
      });
    }
    return watched;
  }

  async #ask(watched: Watched, kind: ProbeKind, probe: Probe): Promise<void> {
    const { clock } = this.#deps;
    const { signal } = watched.stop;
    const settings = probeSettingsOf(probe);
    const startedMs = Number(watched.probed.container.startedAt / 1_000_000n);
    await clock.sleep(Math.max(0, startedMs + settings.initialDelayMs - clock.now()), signal);
    while (!signal.aborted) {
      const beganMs = clock.monotonicMs();
      if (isProbeDue(kind, watched.states)) await this.#askOnce(watched, kind, probe);
      const tookMs = clock.monotonicMs() - beganMs;
      await clock.sleep(Math.max(0, settings.periodMs - tookMs), signal);
    }
  }

  async #askOnce(watched: Watched, kind: ProbeKind, probe: Probe): Promise<void> {
    const { probed, spec, states, stop, limit } = watched;
    const { pod, podIps, container } = probed;
    const isOnNode = pod.spec.hostNetwork === true;
    const place = { ips: isOnNode ? [this.#deps.hostIp] : podIps, isOnNode };
    const settings = probeSettingsOf(probe);
    const asking = { containerId: container.id, timeoutSeconds: settings.timeoutSeconds };
    const answer = await limit(() =>
      askContainer(this.#deps.runtime, questionOf(probe, spec, place), asking),
    );
    const before = states.get(kind);
    if (stop.signal.aborted || before === undefined) return;
    const healthBefore = healthFrom(states);
    const state = nextProbeState(before, answer.outcome, settings);
    states.set(kind, state);
    if (state.last === "failure" && state.streak === 1) this.#tell(watched, kind, answer);
    if (!isSameHealth(healthBefore, healthFrom(states))) this.#deps.wake(watched.uid);
  }

  /** Once for each row of failures. */
  #tell({ probed, spec }: Watched, kind: ProbeKind, { message }: ProbeAnswer): void {
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

/** Probes of no container yet; they end when the signal is aborted. */
export function createProbes(deps: ProbeDeps, signal: AbortSignal): Probes {
  return new ContainerProbes(deps, signal);
}
