// SPDX-License-Identifier: Apache-2.0
// How far is a pod? Questions that both the plan and the status ask of the facts. Pure.
import type { Container, Pod } from "@patchbay/api";
import {
  lastingRefusal,
  latestOf,
  readySandbox,
  statusBefore,
  wasMade,
  type LivePodFacts,
} from "./facts.ts";
import { isToRestart, type End } from "./containers/restart.ts";

/** What is reported of a container whose end nobody saw. Source: Kubernetes kubelet, "ContainerStatusUnknown". */
export const EXIT_CODE_UNKNOWN = 137;

/** How the container ended, last seen; undefined: it has not, or was never made. */
export function endOf(facts: LivePodFacts, { name }: Container): End | undefined {
  const container = latestOf(facts, name);
  if (container?.state === "EXITED") return { exitCode: container.exitCode, container };
  if (container !== undefined || !wasMade(facts, name)) return undefined;
  const { terminated } = statusBefore(facts, name)?.state ?? {};
  return { exitCode: terminated?.exitCode ?? EXIT_CODE_UNKNOWN };
}

/** Whether the container ended and stays so. */
function isOver(facts: LivePodFacts, container: Container, isInit: boolean): boolean {
  const end = endOf(facts, container);
  return end !== undefined && !isToRestart(facts.pod, end, isInit);
}

/** Whether a container of the current sandbox has ended well. */
function isInitDone(facts: LivePodFacts, container: Container): boolean {
  const latest = latestOf(facts, container.name);
  // Once a container runs nobody looks at those before it; their remains may be gone.
  if (latest === undefined)
    return statusBefore(facts, container.name)?.state.terminated?.exitCode === 0 && hasBegun(facts);
  const isCurrent = latest.sandboxId === readySandbox(facts)?.id;
  return latest.state === "EXITED" && latest.exitCode === 0 && (isCurrent || hasBegun(facts));
}

/** Whether one of the containers proper has been made in the current sandbox. */
function hasBegun(facts: LivePodFacts): boolean {
  const current = readySandbox(facts)?.id;
  if (current === undefined) return false;
  return facts.pod.spec.containers.some(({ name }) => latestOf(facts, name)?.sandboxId === current);
}

/** The init container whose turn it is; undefined: all are done. */
export function nextInit(facts: LivePodFacts): Container | undefined {
  return (facts.pod.spec.initContainers ?? []).find((container) => !isInitDone(facts, container));
}

/** Whether an init container failed for good. */
function hasInitFailed(facts: LivePodFacts): boolean {
  const inits = facts.pod.spec.initContainers ?? [];
  return inits.some((one) => {
    const end = endOf(facts, one);
    return end !== undefined && end.exitCode !== 0 && isOver(facts, one, true);
  });
}

/** Whether nothing of a pod that is never restarted can go on: its sandbox died with what ran in it. */
function isBroken(facts: LivePodFacts): boolean {
  const { spec } = facts.pod;
  if (spec.restartPolicy !== "Never" || readySandbox(facts) !== undefined) return false;
  return [...(spec.initContainers ?? []), ...spec.containers].some(({ name }) =>
    wasMade(facts, name),
  );
}

type Phase = NonNullable<NonNullable<Pod["status"]>["phase"]>;

/** The phase in which the pod ends; undefined: it goes on. A phase that was told stays. */
export function finalPhaseOf(facts: LivePodFacts): Phase | undefined {
  const told = facts.pod.status?.phase;
  if (told === "Succeeded" || told === "Failed") return told;
  const { containers } = facts.pod.spec;
  if (lastingRefusal(facts) !== undefined) return "Failed";
  if (hasInitFailed(facts)) return "Failed";
  if (containers.every((one) => isOver(facts, one, false))) {
    return containers.every((one) => endOf(facts, one)?.exitCode === 0) ? "Succeeded" : "Failed";
  }
  return isBroken(facts) ? "Failed" : undefined;
}

/** The phase now. */
export function phaseOf(facts: LivePodFacts): Phase {
  const final = finalPhaseOf(facts);
  if (final !== undefined) return final;
  const hasRun = facts.pod.spec.containers.some(({ name }) => {
    const { state } = latestOf(facts, name) ?? {};
    return state === "RUNNING" || state === "EXITED";
  });
  const isRunning = hasRun || facts.pod.status?.phase === "Running";
  return isRunning && nextInit(facts) === undefined ? "Running" : "Pending";
}
