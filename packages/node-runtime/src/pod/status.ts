// SPDX-License-Identifier: Apache-2.0
// What does the pod's status say? From facts; pure.
import type { Condition, ContainerStatus, Pod } from "@patchbay/api";
import type { ContainerFacts, PodFacts } from "./facts.ts";

/** The status that the runtime writes. */
export type PodStatus = NonNullable<Pod["status"]>;

/** What the status says beside the facts: addresses, the time, and why the last attempt failed. */
export interface StatusContext {
  readonly hostIp: string;
  /** Addresses in the pod, without prefix length. */
  readonly podIps: readonly string[];
  /** Now, RFC 3339. */
  readonly now: string;
  /** Why the last attempt to start the pod failed. */
  readonly failure?: string;
}

function waitingState(facts: PodFacts, image: string, failure?: string): ContainerStatus["state"] {
  const missing = facts.missingImages[0];
  if (missing !== undefined) {
    const named = facts.missingImages.includes(image) ? image : missing;
    const message = `image ${named} is not there; add it with: patchbay image add ${named} DIR`;
    return { waiting: { reason: "ErrImageNeverPull", message } };
  }
  const reason = "ContainerCreating";
  return { waiting: failure === undefined ? { reason } : { reason, message: failure } };
}

function terminatedState(
  exitCode: number,
  before: ContainerStatus | undefined,
  now: string,
): ContainerStatus["state"] {
  const reason = exitCode === 0 ? "Completed" : "Error";
  const finishedAt = before?.state.terminated?.finishedAt ?? now;
  return { terminated: { exitCode, reason, finishedAt } };
}

function earlierStatus(facts: PodFacts, container: string): ContainerStatus | undefined {
  return facts.pod?.status?.containerStatuses?.find(({ name }) => name === container);
}

function stateOf(
  facts: PodFacts,
  { container, state }: ContainerFacts,
  { failure, now }: StatusContext,
): ContainerStatus["state"] {
  const before = earlierStatus(facts, container.name);
  switch (state.kind) {
    case "absent":
    case "starting":
      return waitingState(facts, container.image, failure);
    case "running":
      return { running: { startedAt: before?.state.running?.startedAt ?? now } };
    case "exited":
      return terminatedState(state.exitCode, before, now);
  }
}

function containerStatusOf(
  facts: PodFacts,
  part: ContainerFacts,
  context: StatusContext,
): ContainerStatus {
  const { name, image } = part.container;
  const { kind } = part.state;
  return {
    name,
    image,
    imageID: facts.images.get(image)?.root ?? "",
    ready: kind === "running",
    restartCount: 0,
    ...(kind === "absent" ? {} : { containerID: `patchbay://${facts.uid}/${name}` }),
    state: stateOf(facts, part, context),
  };
}

function phaseOf(facts: PodFacts): NonNullable<PodStatus["phase"]> {
  const states = facts.containers.map(({ state }) => state);
  if (states.some(({ kind }) => kind === "running")) return "Running";
  const exited = states.flatMap((state) => (state.kind === "exited" ? [state.exitCode] : []));
  if (exited.length < states.length) return "Pending";
  return exited.every((exitCode) => exitCode === 0) ? "Succeeded" : "Failed";
}

const OWN_CONDITIONS: readonly string[] = [
  "Initialized",
  "Ready",
  "ContainersReady",
  "PodScheduled",
];

function conditionsOf(facts: PodFacts, now: string): readonly Condition[] {
  const before = facts.pod?.status?.conditions ?? [];
  const isReady = facts.containers.every(({ state }) => state.kind === "running");
  const own = OWN_CONDITIONS.map((type): Condition => {
    const status = type.endsWith("Ready") && !isReady ? "False" : "True";
    const earlier = before.find((condition) => condition.type === type);
    const isSame = earlier?.status === status && earlier.lastTransitionTime !== undefined;
    return { type, status, lastTransitionTime: isSame ? earlier.lastTransitionTime : now };
  });
  // In the order in which they are there; those of others stay.
  const kept = before.map((earlier) => own.find(({ type }) => type === earlier.type) ?? earlier);
  return [...kept, ...own.filter(({ type }) => !before.some((one) => one.type === type))];
}

/** Whether the list of conditions has one that the runtime does not own: a write of the list must lose no race then. */
export function hasForeignCondition(status: PodStatus): boolean {
  return (status.conditions ?? []).some(({ type }) => !OWN_CONDITIONS.includes(type));
}

/** The status; equal to the one that is there when nothing has changed. */
export function podStatusOf(facts: PodFacts, context: StatusContext): PodStatus {
  const before = facts.pod?.status;
  const [podIP] = context.podIps;
  return {
    phase: phaseOf(facts),
    hostIP: context.hostIp,
    ...(podIP === undefined ? {} : { podIP, podIPs: context.podIps.map((ip) => ({ ip })) }),
    startTime: before?.startTime ?? context.now,
    conditions: conditionsOf(facts, context.now),
    containerStatuses: facts.containers.map((part) => containerStatusOf(facts, part, context)),
  };
}
