// SPDX-License-Identifier: Apache-2.0
// Which run of a container is meant? From what the runtime and the pod's status say; pure.
import type { ContainerStatus, Pod } from "@patchbay/api";
import type { ContainerSummary } from "@patchbay/core/ports";
import type { ContainerName, Refusal } from "./request.ts";

/** A run of a container that is there. */
export interface FoundContainer {
  readonly kind: "found";
  readonly id: string;
}

/** Newest first. */
function runsOf(
  containers: readonly ContainerSummary[],
  name: string,
): readonly ContainerSummary[] {
  return containers
    .filter((one) => one.name === name && one.state !== "CREATED")
    .sort((one, other) => other.attempt - one.attempt);
}

function statusOf(pod: Pod, name: string): ContainerStatus | undefined {
  const { containerStatuses = [], initContainerStatuses = [] } = pod.status ?? {};
  return [...containerStatuses, ...initContainerStatuses].find((status) => status.name === name);
}

function hasContainer({ spec }: Pod, name: string): boolean {
  return [...spec.containers, ...(spec.initContainers ?? [])].some((one) => one.name === name);
}

/** Why there is nothing to be read of it. */
function waitingText(
  { container, pod }: ContainerName,
  status: ContainerStatus | undefined,
): string {
  const about = `container ${JSON.stringify(container)} in pod ${JSON.stringify(pod)}`;
  if (status === undefined) return `${about} is not available`;
  const reason = status.state.waiting?.reason ?? "ContainerCreating";
  switch (reason) {
    case "ErrImagePull":
      return `${about} is waiting to start: image can't be pulled`;
    case "ImagePullBackOff":
      return `${about} is waiting to start: trying and failing to pull image`;
    default:
      return `${about} is waiting to start: ${reason}`;
  }
}

/** What is known of the containers of the pod that is asked for; undefined: there is no such pod here. */
export interface KnownPod {
  readonly pod: Pod;
  readonly containers: readonly ContainerSummary[];
}

/** The run whose log is wanted. A container that waits for its next start has ended: its last run is the previous one too. */
export function findLogged(
  known: KnownPod | undefined,
  of: ContainerName,
  previous: boolean,
): FoundContainer | Refusal {
  const refused = (code: number, message: string): Refusal => ({ kind: "refused", code, message });
  const name = JSON.stringify(of.container);
  const podName = JSON.stringify(of.pod);
  if (known === undefined) return refused(404, `pod ${podName} does not exist`);
  if (!hasContainer(known.pod, of.container)) {
    return refused(404, `container ${name} not found in pod ${podName}`);
  }
  const runs = runsOf(known.containers, of.container);
  const status = statusOf(known.pod, of.container);
  const ended = runs.slice(status?.state.waiting === undefined ? 1 : 0);
  const run = previous ? ended.find(({ state }) => state === "EXITED") : runs[0];
  if (run !== undefined) return { kind: "found", id: run.id };
  return refused(
    400,
    previous
      ? `previous terminated container ${name} in pod ${podName} not found`
      : waitingText(of, status),
  );
}

/** The run in which something can be started. */
export function findRunning(
  known: KnownPod | undefined,
  of: ContainerName,
): FoundContainer | Refusal {
  if (known === undefined) return { kind: "refused", code: 404, message: "pod does not exist" };
  const run = runsOf(known.containers, of.container).find(({ state }) => state === "RUNNING");
  if (run !== undefined) return { kind: "found", id: run.id };
  const message = `container not found (${JSON.stringify(of.container)})`;
  return { kind: "refused", code: 500, message };
}
