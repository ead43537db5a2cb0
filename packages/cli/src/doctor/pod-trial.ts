// SPDX-License-Identifier: Apache-2.0
// Starts a test pod with the launchers' image and user, to check whether the node can start pods.
import { randomUUID } from "node:crypto";
import { apiVersionOf, names, PODS } from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";
import type { Reflection } from "@patchbay/kube";

import type { Session } from "../session.ts";
import type { PodTrial } from "./facts.ts";

/** Longest time without a change of the test pod. A pod that still changes starts, although slowly. */
const STUCK_MS = 60_000;
/** User of launchers. Source: hack/images/virt-launcher/customize */
const LAUNCHER_UID = 107;
/** Waiting reasons of a container that is being created. Source: kubelet, defaultWaitingState. */
const STARTING_REASONS: readonly string[] = ["ContainerCreating", "PodInitializing"];

function trialPod(namespace: string): Pod {
  return {
    apiVersion: apiVersionOf(PODS),
    kind: PODS.kind,
    metadata: { namespace, name: `patchbay-doctor-${randomUUID().slice(0, 8)}` },
    spec: {
      restartPolicy: "Never",
      terminationGracePeriodSeconds: 0,
      automountServiceAccountToken: false,
      containers: [
        {
          name: "trial",
          image: names.LAUNCHER_IMAGE,
          imagePullPolicy: "IfNotPresent",
          command: ["/usr/bin/true"],
          securityContext: {
            allowPrivilegeEscalation: false,
            capabilities: { drop: ["ALL"] },
            runAsNonRoot: true,
            runAsUser: LAUNCHER_UID,
            seccompProfile: { type: "RuntimeDefault" },
          },
        },
      ],
    },
  };
}

function joinWords(...words: readonly (string | undefined)[]): string {
  return words.filter((word) => word !== undefined && word !== "").join(": ");
}

type PodStatus = NonNullable<Pod["status"]>;

function readState({ containerStatuses = [] }: PodStatus) {
  return containerStatuses[0]?.state ?? {};
}

function readFailure(status: PodStatus): PodTrial {
  const { terminated } = readState(status);
  const problem = joinWords(terminated?.reason, terminated?.message ?? status.message);
  return { problem: problem === "" ? "its program failed" : problem };
}

export function readTrial({ status = {} }: Pick<Pod, "status">): PodTrial | undefined {
  if (status.phase === "Succeeded") return {};
  if (status.phase === "Failed") return readFailure(status);
  const { waiting } = readState(status);
  const isStarting = waiting === undefined || STARTING_REASONS.includes(waiting.reason);
  return isStarting ? undefined : { problem: joinWords(waiting.reason, waiting.message) };
}

function readChange(change: Reflection<Pod>): PodTrial | undefined {
  const pod = change.kind === "listed" ? change.objects[0] : change.object;
  const isDeleted = change.kind === "removed" || pod === undefined;
  return isDeleted ? { problem: "another client deleted it" } : readTrial(pod);
}

export async function tryPod(
  { client, clock, namespace }: Session,
  signal: AbortSignal,
): Promise<PodTrial> {
  const { store } = client;
  const pod = trialPod(namespace);
  await store.create(PODS, pod);
  const selection = { namespace, fieldSelector: `metadata.name=${pod.metadata.name}` };
  const { promise, resolve, reject } = Promise.withResolvers<PodTrial>();
  let change = new AbortController();
  const waitForChange = (): void => {
    change.abort();
    change = new AbortController();
    clock.sleep(STUCK_MS, AbortSignal.any([signal, change.signal])).then(
      () => {
        const seconds = String(STUCK_MS / 1000);
        resolve({ problem: `it has not started, and has not changed for ${seconds} s` });
      },
      (error: unknown) => {
        if (signal.aborted) reject(error);
      },
    );
  };
  waitForChange();
  const subscription = client.reflect(PODS, selection).subscribe((reflection) => {
    waitForChange();
    const trial = readChange(reflection);
    if (trial !== undefined) resolve(trial);
  });
  try {
    return await promise;
  } finally {
    change.abort();
    subscription.unsubscribe();
    await store.delete(PODS, pod.metadata, { gracePeriodSeconds: 0 });
  }
}
