// SPDX-License-Identifier: Apache-2.0
// What is there of the pod with this uid?
import { isPodFinished, type Pod } from "@patchbay/api";
import { pullCredentialsOf } from "../images/pull-secrets.ts";
import { forbid } from "../policy/refusal.ts";
import { UID_LABEL } from "../translate/labels.ts";
import { BY_UID, type PodDeps } from "./deps.ts";
import {
  containersOf,
  containerStep,
  SANDBOX_STEP,
  VOLUMES_STEP,
  type ContainerFacts,
  type HeldStep,
  type ImageFacts,
  type LivePodFacts,
  type PodFacts,
  type Reason,
  type SandboxFacts,
} from "./facts.ts";
import { imageUsesOf } from "./image-uses.ts";
import { withLastWords } from "./containers/last-words.ts";
import { podDirectoryOf } from "./paths.ts";
import { finalPhaseOf } from "./progress.ts";

function byAge(one: { readonly createdAt: bigint }, other: { readonly createdAt: bigint }): number {
  return Number(other.createdAt - one.createdAt);
}

async function observeSandboxes(
  uid: string,
  { runtime }: PodDeps,
): Promise<readonly SandboxFacts[]> {
  const found = await runtime.listSandboxes({ labels: { [UID_LABEL]: uid } });
  const sorted = [...found].sort(
    (one, other) => other.metadata.attempt - one.metadata.attempt || byAge(one, other),
  );
  return Promise.all(
    sorted.map(async (one): Promise<SandboxFacts> => {
      const status = one.state === "READY" ? await runtime.findSandbox(one.id) : undefined;
      return { ...one, ...status, ips: status?.ips ?? [] };
    }),
  );
}

async function observeContainers(
  uid: string,
  { runtime }: PodDeps,
): Promise<readonly ContainerFacts[]> {
  const found = await runtime.listContainers({ labels: { [UID_LABEL]: uid } });
  const facts = await Promise.all(
    found.map(async ({ id, sandboxId }) => {
      const status = await runtime.findContainer(id);
      return status === undefined ? [] : [{ ...status, sandboxId }];
    }),
  );
  return facts.flat().sort((one, other) => other.attempt - one.attempt || byAge(one, other));
}

/** The circumstances of a step: another specification is worth another attempt. */
export function circumstancesOf(pod: Pod | undefined): string {
  return JSON.stringify(pod?.spec);
}

function observeHeld(uid: string, pod: Pod, { pauses }: PodDeps): ReadonlyMap<string, HeldStep> {
  const names = [
    VOLUMES_STEP,
    SANDBOX_STEP,
    ...containersOf(pod).map(({ name }) => containerStep(name)),
  ];
  const circumstances = circumstancesOf(pod);
  return new Map(
    names.flatMap((name) => {
      const held = pauses.findHeld({ scope: uid, name, circumstances });
      return held === undefined ? [] : [[name, held] as const];
    }),
  );
}

/** Of the containers that may have to be started. */
async function observeImages(
  facts: LivePodFacts,
  { pulls, store }: PodDeps,
): Promise<ReadonlyMap<string, ImageFacts>> {
  const { pod } = facts;
  if (pod.metadata.deletionTimestamp !== undefined || finalPhaseOf(facts) !== undefined) {
    return new Map();
  }
  const images = new Map<string, ImageFacts>();
  const isMade = facts.containers.some(({ state }) => state === "RUNNING");
  for (const use of imageUsesOf(facts)) {
    // What a pod that runs has mounted is there.
    if (isMade && use.start.startsWith("volume ")) continue;
    const credentials = (): ReturnType<typeof pullCredentialsOf> =>
      pullCredentialsOf(store, pod, use.reference);
    images.set(use.reference, await pulls.find(use, credentials));
  }
  return images;
}

/** What is over or on its way out asks for nothing any more. */
function refusalOf(
  pod: Pod,
  { deps, sandboxes }: { readonly deps: PodDeps; readonly sandboxes: readonly SandboxFacts[] },
): Reason | undefined {
  if (isPodFinished(pod) || pod.metadata.deletionTimestamp !== undefined) return undefined;
  return forbid(pod) ?? deps.admission.refuse(pod, sandboxes.length > 0);
}

/** Reads the facts of one uid. */
export async function observe(uid: string, deps: PodDeps): Promise<PodFacts> {
  const directory = podDirectoryOf(uid, deps.node.podsDir);
  const [sandboxes, containers, hasRemains] = await Promise.all([
    observeSandboxes(uid, deps),
    observeContainers(uid, deps),
    deps.files.exists(directory),
  ]);
  deps.owners.keep(
    uid,
    [...sandboxes, ...containers].map(({ id }) => id),
  );
  const [pod] = deps.pods.listBy(BY_UID, uid);
  const facts: PodFacts = {
    uid,
    pod,
    sandboxes,
    containers,
    hasRemains,
    released: deps.released,
    images: new Map(),
    held: pod === undefined ? new Map() : observeHeld(uid, pod, deps),
    refusal: pod === undefined ? undefined : refusalOf(pod, { deps, sandboxes }),
    health: deps.probes.healthOf(uid),
  };
  if (pod === undefined) return facts;
  const live: LivePodFacts = { ...facts, pod };
  const [images, told] = await Promise.all([observeImages(live, deps), withLastWords(live)]);
  return { ...live, images, containers: told };
}
