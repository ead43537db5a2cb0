// SPDX-License-Identifier: Apache-2.0
// Carries out the plan of one pod, step by step; stops at the first failure.
import { join } from "node:path";
import type { Pod } from "@patchbay/api";
import { keyOf } from "@patchbay/kube";
import { PODS } from "@patchbay/api";
import type { Deps } from "../../deps.ts";
import {
  listContainers,
  removeContainer,
  startContainer,
  terminateContainer,
} from "../../pod/containers.ts";
import type { PodFacts } from "../../pod/facts.ts";
import type { PodAction } from "../../pod/plan.ts";
import { createSandbox, removeSandbox } from "../../pod/sandbox.ts";
import { prepareVolumes, removeVolumes } from "../../pod/volumes.ts";

async function start(
  deps: Deps,
  facts: PodFacts & { readonly pod: Pod },
  name: string,
): Promise<void> {
  const { images, paths, pod, uid } = facts;
  const container = facts.containers.find((part) => part.container.name === name)?.container;
  const image = images.get(container?.image ?? "");
  if (container === undefined || image === undefined) return; // planned from these very facts
  const imageVolumes = new Map([...images].map(([reference, { root }]) => [reference, root]));
  const bundle = join(paths.containers, name);
  await startContainer(deps, uid, { pod, container, image, imageVolumes, paths, bundle });
}

async function terminate(facts: PodFacts, name: string): Promise<void> {
  const part = facts.containers.find(({ container }) => container.name === name);
  if (part !== undefined) await terminateContainer(part.state);
}

/** Processes first, then what they used; the record goes last. */
async function removePod(deps: Deps, facts: PodFacts): Promise<void> {
  const { paths, record, uid } = facts;
  deps.ends.forget(uid);
  for (const name of await listContainers(deps, paths)) await removeContainer(deps, uid, name);
  if (record !== undefined) await removeSandbox(deps, paths, record);
  await removeVolumes(deps, paths);
  await deps.files.remove(paths.state);
}

async function actWithPod(
  deps: Deps,
  facts: PodFacts & { readonly pod: Pod },
  action: Exclude<PodAction, { readonly kind: "removePod" | "removeSandbox" }>,
): Promise<void> {
  const { paths, pod, uid } = facts;
  switch (action.kind) {
    case "createSandbox":
      await createSandbox(deps, pod, paths);
      return;
    case "prepareVolumes":
      await prepareVolumes(deps, pod, paths);
      return;
    case "startContainer":
      await start(deps, facts, action.container);
      return;
    case "terminateContainer":
      await terminate(facts, action.container);
      return;
    case "wait":
      return;
    case "deleteObject":
      await deps.store.delete(PODS, keyOf(pod), { gracePeriodSeconds: 0, uid });
  }
}

async function actOnce(deps: Deps, facts: PodFacts, action: PodAction): Promise<void> {
  if (action.kind === "removePod") {
    await removePod(deps, facts);
  } else if (action.kind === "removeSandbox") {
    if (facts.record !== undefined) await removeSandbox(deps, facts.paths, facts.record);
    await deps.files.remove(facts.paths.record);
  } else if (facts.pod !== undefined) {
    await actWithPod(deps, { ...facts, pod: facts.pod }, action);
  }
}

/** Carries out the plan; the first failure, if any. */
export async function act(
  plan: readonly PodAction[],
  facts: PodFacts,
  deps: Deps,
): Promise<unknown> {
  const startMs = deps.clock.monotonicMs();
  for (const action of plan) {
    try {
      await actOnce(deps, facts, action);
    } catch (error) {
      return error;
    }
  }
  const done = plan.filter(({ kind }) => kind !== "wait").map(({ kind }) => kind);
  if (done.length > 0) {
    const durationMs = Math.round(deps.clock.monotonicMs() - startMs);
    deps.log.info("pod changed", { uid: facts.uid, plan: done, durationMs });
  }
  return undefined;
}
