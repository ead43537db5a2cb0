// SPDX-License-Identifier: Apache-2.0
// The steps of a plan, each done once. Repeated, they do no harm.
import { join } from "node:path";
import { PODS } from "@patchbay/api";
import { keyOf } from "@patchbay/kube";
import { pullCredentialsOf } from "../images/pull-secrets.ts";
import { hostsFileOf, printHosts } from "../translate/hosts.ts";
import { hostnameOf, sandboxConfigOf } from "../translate/sandbox.ts";
import type { PodDeps } from "./deps.ts";
import { containersOf, readySandbox, type LivePodFacts, type PodFacts } from "./facts.ts";
import { makeContainer, type Home } from "./containers/make-container.ts";
import { imageUsesOf } from "./image-uses.ts";
import { podDirectoryOf } from "./paths.ts";
import type { PodAction, StartContainer } from "./plan.ts";

/** What earlier steps of the same plan have brought about. */
export interface Progress {
  home: Home | undefined;
  volumes: ReadonlyMap<string, string> | undefined;
  /** Volumes that are being made while the sandbox is. */
  early: Promise<ReadonlyMap<string, string>> | undefined;
}

/** The steps that need the pod's object. */
type LiveAction = Extract<
  PodAction,
  {
    readonly kind:
      | "prepareVolumes"
      | "runSandbox"
      | "pullImage"
      | "startContainer"
      | "deleteObject";
  }
>;

async function homeOf(deps: PodDeps, facts: LivePodFacts, id: string): Promise<Home | undefined> {
  const found =
    facts.sandboxes.find((one) => one.id === id) ?? (await deps.runtime.findSandbox(id));
  if (found === undefined) return undefined;
  const config = sandboxConfigOf(facts.pod, found.metadata.attempt, deps.node);
  return { id, config, ips: found.ips };
}

/** Begins to make the volumes: they take as long as the sandbox, and need nothing of it. */
export function beginVolumes(deps: PodDeps, { pod }: PodFacts, progress: Progress): void {
  if (pod === undefined) return;
  progress.early = deps.volumes.prepare(pod);
  progress.early.catch(() => undefined); // thrown where it is waited for
}

/** Others than root see nothing of a pod. Source: Kubernetes kubelet, mode of the pods' directories. */
const POD_MODE = 0o750;

async function runSandbox(
  deps: PodDeps,
  facts: LivePodFacts,
  attempt: number,
): Promise<Home | undefined> {
  const { pod, uid } = facts;
  const config = sandboxConfigOf(pod, attempt, deps.node);
  await deps.files.ensureDirectory(config.logDirectory, 0o700);
  const id = await deps.observeNetworks(() => deps.runtime.runSandbox(config));
  const home = await homeOf(deps, facts, id);
  const directory = podDirectoryOf(uid, deps.node.podsDir);
  await deps.files.ensureDirectory(directory, POD_MODE);
  const text = printHosts(hostnameOf(pod, deps.node.name), home?.ips ?? []);
  await deps.files.writeAtomic(hostsFileOf(directory), text, 0o644);
  return home;
}

async function start(
  deps: PodDeps,
  facts: LivePodFacts,
  at: { readonly action: StartContainer; readonly progress: Progress },
): Promise<void> {
  const { action, progress } = at;
  const sandbox = readySandbox(facts);
  progress.home ??= sandbox === undefined ? undefined : await homeOf(deps, facts, sandbox.id);
  const { home, volumes } = progress;
  const container = containersOf(facts.pod).find(({ name }) => name === action.container);
  if (container === undefined || home === undefined || volumes === undefined) return;
  const image = facts.images.get(container.image);
  await makeContainer(deps, { pod: facts.pod, container, action, image, home, volumes });
}

function pull(deps: PodDeps, facts: LivePodFacts, reference: string): void {
  const use = imageUsesOf(facts).find((one) => one.reference === reference);
  if (use === undefined) return;
  deps.pulls.begin(use, {
    note: (note) => {
      deps.recorder.record(facts.pod, { ...note, about: reference });
    },
    credentials: () => pullCredentialsOf(deps.store, facts.pod, reference),
  });
}

async function actLive(
  deps: PodDeps,
  facts: LivePodFacts,
  at: { readonly action: LiveAction; readonly progress: Progress },
): Promise<void> {
  const { action, progress } = at;
  switch (action.kind) {
    case "prepareVolumes":
      progress.volumes = await (progress.early ?? deps.volumes.prepare(facts.pod));
      return;
    case "runSandbox":
      progress.home = await runSandbox(deps, facts, action.attempt);
      return;
    case "pullImage":
      pull(deps, facts, action.reference);
      return;
    case "startContainer":
      await start(deps, facts, { action, progress });
      return;
    case "deleteObject": {
      const { uid } = facts;
      await deps.store.delete(PODS, keyOf(facts.pod), { gracePeriodSeconds: 0, uid });
    }
  }
}

/** Logs first: the pod's directory is what tells that something is left. */
async function removeRemains(deps: PodDeps, uid: string): Promise<void> {
  const { files, node } = deps;
  const logs = (await files.list(node.logDir)).filter((name) => name.endsWith(`_${uid}`));
  for (const name of logs) await files.remove(join(node.logDir, name));
  deps.probes.keep(uid, []);
  deps.pauses.forget(uid);
  deps.pulls.forget(uid);
  await deps.volumes.remove(uid);
}

/** What is done at once; what is waited for is none of it. */
export type TakenAction = Exclude<PodAction, { readonly kind: "wait" }>;
/** The steps that take something away. */
type RemovingAction = Exclude<TakenAction, LiveAction>;

/** One that died by itself may have left processes of which the runtime does not know. */
async function removeSandbox(deps: PodDeps, facts: PodFacts, id: string): Promise<void> {
  await deps.runtime.removeSandbox(id);
  deps.released.delete(id);
  if (facts.sandboxes.find((one) => one.id === id)?.state === "NOTREADY") await deps.sweeper.now();
}

async function remove(deps: PodDeps, facts: PodFacts, action: RemovingAction): Promise<void> {
  const { uid } = facts;
  switch (action.kind) {
    case "stopContainer":
      deps.stops.begin(uid, action.id, action.graceSeconds);
      return;
    case "removeContainer":
      await deps.runtime.removeContainer(action.id);
      return;
    case "stopSandbox":
      await deps.runtime.stopSandbox(action.id);
      deps.released.add(action.id);
      return;
    case "removeSandbox":
      await removeSandbox(deps, facts, action.id);
      return;
    case "removeRemains":
      await removeRemains(deps, uid);
  }
}

const LIVE: readonly string[] = [
  "prepareVolumes",
  "runSandbox",
  "pullImage",
  "startContainer",
  "deleteObject",
] satisfies readonly LiveAction["kind"][];

function isLive(action: TakenAction): action is LiveAction {
  return LIVE.includes(action.kind);
}

/** Does one step. */
export async function takeStep(
  deps: PodDeps,
  facts: PodFacts,
  at: { readonly action: TakenAction; readonly progress: Progress },
): Promise<void> {
  const { action, progress } = at;
  if (isLive(action)) {
    const { pod } = facts;
    if (pod !== undefined) await actLive(deps, { ...facts, pod }, { action, progress });
  } else await remove(deps, facts, action);
}
