// SPDX-License-Identifier: Apache-2.0
// Executes the steps of a plan. Each step is idempotent.
import { join } from "node:path";
import { CONFIG_MAPS, SECRETS, PODS } from "@patchbay/api";
import type { Container, Pod } from "@patchbay/api/kubernetes";
import { AppError } from "@patchbay/base";
import type { SandboxConfig } from "@patchbay/core/interfaces";
import { toContainerConfig } from "../translate/container.ts";
import { listEnvReferences, type EnvSources } from "../translate/environment.ts";
import type { PodDeps } from "./deps.ts";
import {
  type ImageFacts,
  listPodContainers,
  findReadySandbox,
  type LivePodFacts,
  type PodFacts,
} from "./facts.ts";
import { buildCheckedPodDirectory } from "../volumes/layout.ts";
import { isLow, printBytes } from "../volumes/storage/limits.ts";
import type { StartContainer, PodAction } from "./plan.ts";
import { keyOf } from "@patchbay/kube";
import { findPullCredentials } from "../images/credentials.ts";
import {
  buildHostsFilePath,
  printHosts,
  findHostname,
  toSandboxConfig,
} from "../translate/sandbox.ts";
import { listImageUses } from "./pulls.ts";

interface SandboxContext {
  readonly id: string;
  readonly config: SandboxConfig;
  readonly ips: readonly string[];
}

interface ContainerPlan {
  readonly pod: Pod;
  readonly container: Container;
  readonly action: StartContainer;
  readonly image: ImageFacts | undefined;
  readonly sandboxContext: SandboxContext;
  readonly volumes: ReadonlyMap<string, string>;
}

async function readSources(deps: PodDeps, pod: Pod, container: Container): Promise<EnvSources> {
  const { namespace = "" } = pod.metadata;
  const names = listEnvReferences(container);
  const configMaps = new Map<string, Readonly<Record<string, string>>>();
  const secrets = new Map<string, Readonly<Record<string, string>>>();
  for (const name of names.configMaps) {
    const object = await deps.store.find(CONFIG_MAPS, { namespace, name });
    if (object !== undefined) configMaps.set(name, object.data ?? {});
  }
  for (const name of names.secrets) {
    const object = await deps.store.find(SECRETS, { namespace, name });
    const texts = Object.entries(object?.data ?? {}).map(
      ([key, value]) => [key, Buffer.from(value, "base64").toString()] as const,
    );
    if (object !== undefined) secrets.set(name, Object.fromEntries(texts));
  }
  return { configMaps, secrets };
}

/** Rejects paths that are not devices, because the runtime expands a directory into every device below it. */
async function checkDevices(
  deps: PodDeps,
  container: Container,
  paths: readonly string[],
): Promise<void> {
  for (const path of paths) {
    const kind = (await deps.disk.readKind(path)) ?? "not there";
    if (kind === "BlockDevice" || kind === "CharDevice") continue;
    const reason = `${path} must be a device, and is ${kind}`;
    throw new AppError("RUNTIME_CONTAINER_REFUSED", { container: container.name, reason });
  }
}

async function createFromPlan(deps: PodDeps, plan: ContainerPlan): Promise<string | undefined> {
  const { pod, container, action, image, sandboxContext, volumes } = plan;
  if (image?.kind !== "present") return undefined;
  const config = toContainerConfig({
    pod,
    container,
    volumes,
    image: image.image,
    attempt: action.attempt,
    ...(action.delaySeconds !== undefined && { delaySeconds: action.delaySeconds }),
    podDirectory: buildCheckedPodDirectory(pod.metadata.uid ?? "", deps.node.podsDir),
    node: deps.node,
    podIps: sandboxContext.ips,
    sources: await readSources(deps, pod, container),
  });
  const devices = config.devices.map(({ hostPath }) => hostPath);
  await checkDevices(deps, container, devices);
  const log = join(sandboxContext.config.logDirectory, config.logPath);
  await deps.files.ensureDirectory(join(log, ".."), 0o700);
  return deps.runtime.createContainer(sandboxContext.id, config, sandboxContext.config);
}

async function createAndStartContainer(deps: PodDeps, plan: ContainerPlan): Promise<void> {
  const id = plan.action.createdId ?? (await createFromPlan(deps, plan));
  if (id !== undefined) await deps.runtime.startContainer(id);
}

export interface Progress {
  sandboxContext: SandboxContext | undefined;
  volumes: ReadonlyMap<string, string> | undefined;
  /** Volumes that are prepared in parallel with the sandbox; undefined if the preparation was not started. */
  pendingVolumes: Promise<ReadonlyMap<string, string>> | undefined;
}

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

async function findSandboxContext(
  deps: PodDeps,
  facts: LivePodFacts,
  id: string,
): Promise<SandboxContext | undefined> {
  const sandbox =
    facts.sandboxes.find((sandbox) => sandbox.id === id) ?? (await deps.runtime.findSandbox(id));
  if (sandbox === undefined) return undefined;
  const config = toSandboxConfig(facts.pod, sandbox.metadata.attempt, deps.node);
  return { id, config, ips: sandbox.ips };
}

/** Rejects new pods at the limit at which running pods are evicted. @throws AppError with RUNTIME_DISK_FULL */
async function rejectNearlyFullDisk({ files, node: { podsDir } }: PodDeps): Promise<void> {
  const disk = await files.readSpace(podsDir);
  if (!isLow(disk)) return;
  const [free, size] = [printBytes(disk.freeBytes), printBytes(disk.sizeBytes)];
  throw new AppError("RUNTIME_DISK_FULL", { path: podsDir, free, size });
}

export function startVolumes(deps: PodDeps, { pod }: PodFacts, progress: Progress): void {
  if (pod === undefined) return;
  progress.pendingVolumes = rejectNearlyFullDisk(deps).then(() => deps.volumes.prepare(pod));
  progress.pendingVolumes.catch(() => undefined); // The step prepareVolumes reports the error.
}

/** Mode of a pod's directory. Only root and the directory's group may read it. Source: kubelet. */
const POD_MODE = 0o750;

async function runSandbox(
  deps: PodDeps,
  facts: LivePodFacts,
  attempt: number,
): Promise<SandboxContext | undefined> {
  const { pod, uid } = facts;
  await rejectNearlyFullDisk(deps);
  const config = toSandboxConfig(pod, attempt, deps.node);
  await deps.files.ensureDirectory(config.logDirectory, 0o700);
  const id = await deps.observeNetworks(() => deps.runtime.runSandbox(config));
  const sandboxContext = await findSandboxContext(deps, facts, id);
  const directory = buildCheckedPodDirectory(uid, deps.node.podsDir);
  await deps.files.ensureDirectory(directory, POD_MODE);
  const text = printHosts(findHostname(pod, deps.node.name), sandboxContext?.ips ?? []);
  await deps.files.writeAtomic(buildHostsFilePath(directory), text, 0o644);
  return sandboxContext;
}

async function startContainer(
  deps: PodDeps,
  facts: LivePodFacts,
  step: { readonly action: StartContainer; readonly progress: Progress },
): Promise<void> {
  const { action, progress } = step;
  const sandbox = findReadySandbox(facts);
  progress.sandboxContext ??=
    sandbox === undefined ? undefined : await findSandboxContext(deps, facts, sandbox.id);
  const { sandboxContext, volumes } = progress;
  const container = listPodContainers(facts.pod).find(({ name }) => name === action.container);
  if (container === undefined || sandboxContext === undefined || volumes === undefined) return;
  const image = facts.images.get(container.image);
  await createAndStartContainer(deps, {
    pod: facts.pod,
    container,
    action,
    image,
    sandboxContext,
    volumes,
  });
}

function beginPull(deps: PodDeps, facts: LivePodFacts, reference: string): void {
  const use = listImageUses(facts).find((one) => one.reference === reference);
  if (use === undefined) return;
  deps.pulls.begin(use, {
    note: (note) => {
      deps.recorder.record(facts.pod, { ...note, about: reference });
    },
    credentials: () => findPullCredentials(deps.store, facts.pod, reference),
  });
}

async function executeLiveAction(
  deps: PodDeps,
  facts: LivePodFacts,
  step: { readonly action: LiveAction; readonly progress: Progress },
): Promise<void> {
  const { action, progress } = step;
  switch (action.kind) {
    case "prepareVolumes":
      progress.volumes = await (progress.pendingVolumes ?? deps.volumes.prepare(facts.pod));
      return;
    case "runSandbox":
      progress.sandboxContext = await runSandbox(deps, facts, action.attempt);
      return;
    case "pullImage":
      beginPull(deps, facts, action.reference);
      return;
    case "startContainer":
      await startContainer(deps, facts, { action, progress });
      return;
    case "deleteObject": {
      const { uid } = facts;
      await deps.store.delete(PODS, keyOf(facts.pod), { gracePeriodSeconds: 0, uid });
    }
  }
}

/** Removes logs and volumes. Removes the pod's directory last, because a restarted node-runtime uses it to find incomplete removals. */
async function removeRemains(deps: PodDeps, uid: string): Promise<void> {
  const { files, node } = deps;
  const logs = (await files.list(node.logDir)).filter((name) => name.endsWith(`_${uid}`));
  for (const name of logs) await files.remove(join(node.logDir, name));
  deps.probes.retain(uid, []);
  deps.stepBackoff.forget(uid);
  deps.pulls.forget(uid);
  await deps.volumes.remove(uid);
}

export type ExecutedAction = Exclude<PodAction, { readonly kind: "wait" }>;
type RemovingAction = Exclude<ExecutedAction, LiveAction>;

/** Removes a sandbox. Kills orphaned shims if the sandbox was not ready, because its shim may have crashed. */
async function removeSandbox(deps: PodDeps, facts: PodFacts, id: string): Promise<void> {
  await deps.runtime.removeSandbox(id);
  deps.releasedSandboxIds.delete(id);
  if (facts.sandboxes.find((one) => one.id === id)?.state === "NOTREADY")
    await deps.sweeper.sweep();
}

async function executeRemoval(
  deps: PodDeps,
  facts: PodFacts,
  action: RemovingAction,
): Promise<void> {
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
      deps.releasedSandboxIds.add(action.id);
      return;
    case "removeSandbox":
      await removeSandbox(deps, facts, action.id);
      return;
    case "removeRemains":
      await removeRemains(deps, uid);
  }
}

const LIVE_KINDS: readonly string[] = [
  "prepareVolumes",
  "runSandbox",
  "pullImage",
  "startContainer",
  "deleteObject",
] satisfies readonly LiveAction["kind"][];

function isLive(action: ExecutedAction): action is LiveAction {
  return LIVE_KINDS.includes(action.kind);
}

export async function executeStep(
  deps: PodDeps,
  facts: PodFacts,
  step: { readonly action: ExecutedAction; readonly progress: Progress },
): Promise<void> {
  const { action, progress } = step;
  if (isLive(action)) {
    const { pod } = facts;
    if (pod !== undefined) await executeLiveAction(deps, { ...facts, pod }, { action, progress });
  } else await executeRemoval(deps, facts, action);
}
