// SPDX-License-Identifier: Apache-2.0
// What is to be done for one pod? Pure.
import { isPodFinished } from "@patchbay/api";
import type { PodFacts } from "./facts.ts";

/** One step; repeated, it does no harm. */
export type PodAction =
  /** What an earlier boot has left of the sandbox goes first. */
  | { readonly kind: "removeSandbox" }
  | { readonly kind: "createSandbox" }
  | { readonly kind: "prepareVolumes" }
  | { readonly kind: "startContainer"; readonly container: string }
  /** Asks the container to end. */
  | { readonly kind: "terminateContainer"; readonly container: string }
  /** Look again: then the container is asked again, or the grace period is over. */
  | { readonly kind: "wait"; readonly ms: number }
  /** Ends all processes and removes everything that is on this machine. */
  | { readonly kind: "removePod" }
  /** Takes the object away, now that nothing is left. */
  | { readonly kind: "deleteObject" };

/** A container that has only just begun does not hear the signal, so it is asked again, milliseconds. */
const ASK_AGAIN_MS = 5_000;

function planDeletion(facts: PodFacts, nowMs: number): readonly PodAction[] {
  const alive = facts.containers.filter(
    ({ state }) => state.kind === "running" || state.kind === "starting",
  );
  // Kubernetes sets it to the time of the request plus the grace period.
  // eslint-disable-next-line no-restricted-globals -- converts a given time, reads no clock
  const deadlineMs = Date.parse(facts.pod?.metadata.deletionTimestamp ?? "");
  if (alive.length > 0 && deadlineMs > nowMs) {
    return [
      ...alive.map(({ container }): PodAction => {
        return { kind: "terminateContainer", container: container.name };
      }),
      { kind: "wait", ms: Math.min(deadlineMs - nowMs, ASK_AGAIN_MS) },
    ];
  }
  return [...(facts.hasRemains ? [{ kind: "removePod" } as const] : []), { kind: "deleteObject" }];
}

function planStart(facts: PodFacts): readonly PodAction[] {
  const absent = facts.containers.filter(({ state }) => state.kind === "absent");
  // A container that ended is not started again: launchers have restartPolicy Never.
  if (absent.length < facts.containers.length || absent.length === 0) return [];
  const isStale = facts.record !== undefined && !facts.isRecordCurrent;
  return [
    ...(isStale ? [{ kind: "removeSandbox" } as const] : []),
    ...(facts.hasSandbox ? [] : [{ kind: "createSandbox" } as const]),
    { kind: "prepareVolumes" },
    ...absent.map(({ container }): PodAction => {
      return { kind: "startContainer", container: container.name };
    }),
  ];
}

/** The steps in their order; none at rest. */
export function planPod(facts: PodFacts, nowMs: number): readonly PodAction[] {
  const { pod } = facts;
  if (pod === undefined) return facts.hasRemains ? [{ kind: "removePod" }] : [];
  if (pod.metadata.deletionTimestamp !== undefined) return planDeletion(facts, nowMs);
  return isPodFinished(pod) || facts.missingImages.length > 0 ? [] : planStart(facts);
}
