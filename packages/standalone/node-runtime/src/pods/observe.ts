// SPDX-License-Identifier: Apache-2.0
import { openGrowingFile, readFileSize } from "@patchbay/os";
import { parseRecord } from "../kubelet-api/log-format.ts";
import {
  listPodContainers,
  type ContainerFacts,
  type LivePodFacts,
  type Reason,
  buildContainerStepName,
  SANDBOX_STEP,
  VOLUMES_STEP,
  type PausedStep,
  type ImageFacts,
  type PodFacts,
  type SandboxFacts,
} from "./facts.ts";
import { type Pod, isPodFinished } from "@patchbay/api/kubernetes";
import { cutText, runChecks } from "@patchbay/api/limits";
import { findPodProblems } from "../policy/pod-policy.ts";
import { findPullCredentials } from "../images/credentials.ts";
import { UID_LABEL } from "../translate/labels.ts";
import { UID_INDEX, type PodDeps } from "./deps.ts";
import { listImageUses } from "./pulls.ts";
import { buildCheckedPodDirectory } from "../volumes/layout.ts";
import { findFinalPhase } from "./progress.ts";

/** Source: MaxContainerTerminationMessageLogLength and MaxContainerTerminationMessageLogLines of Kubernetes. */
const MESSAGE_BYTES = 2048;
const MESSAGE_LINES = 80;
/** Number of bytes to read from the log's end. It exceeds MESSAGE_BYTES, because each line also has a timestamp. */
const TAIL_BYTES = 16 * 1024;
const NEWLINE = "\n";

function parseLogText(line: string): string {
  const record = parseRecord(Buffer.from(line, "latin1"));
  return record === undefined
    ? ""
    : record.text.toString("latin1") + (record.isPartial ? "" : NEWLINE);
}

/** Returns the last lines of a log, as many as a termination message can hold. `tail` may start in the middle of a log record. */
export function parseLogTail(tail: Buffer): string {
  // latin1 maps each byte to one character, so that offsets in the text are offsets in bytes.
  const logText = tail.toString("latin1").split(NEWLINE).map(parseLogText).join("").trimEnd();
  const lines = logText.split(NEWLINE).slice(-MESSAGE_LINES).join(NEWLINE);
  return Buffer.from(lines.slice(-MESSAGE_BYTES), "latin1").toString("utf8");
}

async function readTail(path: string): Promise<Buffer> {
  const [size, file] = await Promise.all([readFileSize(path), openGrowingFile(path)]);
  if (size === undefined || file === undefined) {
    await file?.close();
    return Buffer.alloc(0);
  }
  try {
    return await file.read(Math.max(0, size - TAIL_BYTES), TAIL_BYTES);
  } finally {
    await file.close();
  }
}

function hasFailedWithoutMessage({ state, exitCode, message }: ContainerFacts): boolean {
  return state === "EXITED" && exitCode !== 0 && message === "";
}

/** Returns the containers. With `FallbackToLogsOnError`, sets a missing message of a failed container to the end of its log. */
export async function withLogTails({
  pod,
  containers,
}: LivePodFacts): Promise<readonly ContainerFacts[]> {
  const fallbackNames = new Set(
    listPodContainers(pod)
      .filter(
        ({ terminationMessagePolicy }) => terminationMessagePolicy === "FallbackToLogsOnError",
      )
      .map(({ name }) => name),
  );
  return Promise.all(
    containers.map(async (container) => {
      if (!fallbackNames.has(container.name) || !hasFailedWithoutMessage(container))
        return container;
      return { ...container, message: parseLogTail(await readTail(container.logPath)) };
    }),
  );
}

export function findPolicyViolation(pod: Pod): Reason | undefined {
  const problems = runChecks([() => findPodProblems(pod)], (message) => ({
    field: "spec",
    message,
  }));
  if (problems.length === 0) return undefined;
  const message = problems.map(({ field, message }) => `${cutText(field)}: ${message}`).join("; ");
  return { reason: "PodForbidden", message };
}

function compareNewestFirst(
  left: { readonly createdAt: bigint },
  right: { readonly createdAt: bigint },
): number {
  return Number(right.createdAt - left.createdAt);
}

async function observeSandboxes(
  uid: string,
  { runtime }: PodDeps,
): Promise<readonly SandboxFacts[]> {
  const sandboxes = await runtime.listSandboxes({ labels: { [UID_LABEL]: uid } });
  const sorted = [...sandboxes].sort(
    (left, right) =>
      right.metadata.attempt - left.metadata.attempt || compareNewestFirst(left, right),
  );
  return Promise.all(
    sorted.map(async (sandbox): Promise<SandboxFacts> => {
      const status = sandbox.state === "READY" ? await runtime.findSandbox(sandbox.id) : undefined;
      return { ...sandbox, ...status, ips: status?.ips ?? [] };
    }),
  );
}

async function observeContainers(
  uid: string,
  { runtime }: PodDeps,
): Promise<readonly ContainerFacts[]> {
  const containers = await runtime.listContainers({ labels: { [UID_LABEL]: uid } });
  const facts = await Promise.all(
    containers.map(async ({ id, sandboxId }) => {
      const status = await runtime.findContainer(id);
      return status === undefined ? [] : [{ ...status, sandboxId }];
    }),
  );
  return facts
    .flat()
    .sort((left, right) => right.attempt - left.attempt || compareNewestFirst(left, right));
}

/** Serializes the inputs of the pod's steps. A failed step is retried without delay if the inputs have changed. */
export function serializeInputs(pod: Pod | undefined): string {
  return JSON.stringify(pod?.spec);
}

function observePausedSteps(
  uid: string,
  pod: Pod,
  { stepBackoff }: PodDeps,
): ReadonlyMap<string, PausedStep> {
  const names = [
    VOLUMES_STEP,
    SANDBOX_STEP,
    ...listPodContainers(pod).map(({ name }) => buildContainerStepName(name)),
  ];
  const inputs = serializeInputs(pod);
  return new Map(
    names.flatMap((name) => {
      const pausedStep = stepBackoff.findDelay({ scope: uid, name, inputs });
      return pausedStep === undefined ? [] : [[name, pausedStep] as const];
    }),
  );
}

async function observeImages(
  facts: LivePodFacts,
  { pulls, store }: PodDeps,
): Promise<ReadonlyMap<string, ImageFacts>> {
  const { pod } = facts;
  if (pod.metadata.deletionTimestamp !== undefined || findFinalPhase(facts) !== undefined) {
    return new Map();
  }
  const images = new Map<string, ImageFacts>();
  const isRunning = facts.containers.some(({ state }) => state === "RUNNING");
  for (const use of listImageUses(facts)) {
    // A running pod needs no image for its volumes, because the volumes are already mounted.
    if (isRunning && use.startId.startsWith("volume ")) continue;
    const credentials = (): ReturnType<typeof findPullCredentials> =>
      findPullCredentials(store, pod, use.reference);
    images.set(use.reference, await pulls.find(use, credentials));
  }
  return images;
}

function findRejection(
  pod: Pod,
  { deps, sandboxes }: { readonly deps: PodDeps; readonly sandboxes: readonly SandboxFacts[] },
): Reason | undefined {
  if (isPodFinished(pod) || pod.metadata.deletionTimestamp !== undefined) return undefined;
  return findPolicyViolation(pod) ?? deps.admission.admit(pod, sandboxes.length > 0);
}

export async function observe(uid: string, deps: PodDeps): Promise<PodFacts> {
  const directory = buildCheckedPodDirectory(uid, deps.node.podsDir);
  const [sandboxes, containers, hasLeftovers] = await Promise.all([
    observeSandboxes(uid, deps),
    observeContainers(uid, deps),
    deps.files.exists(directory),
  ]);
  deps.owners.retain(
    uid,
    [...sandboxes, ...containers].map(({ id }) => id),
  );
  const [pod] = deps.pods.listBy(UID_INDEX, uid);
  const facts: PodFacts = {
    uid,
    pod,
    sandboxes,
    containers,
    hasLeftovers,
    releasedSandboxIds: deps.releasedSandboxIds,
    images: new Map(),
    pausedSteps: pod === undefined ? new Map() : observePausedSteps(uid, pod, deps),
    rejection: pod === undefined ? undefined : findRejection(pod, { deps, sandboxes }),
    health: deps.probes.findHealth(uid),
  };
  if (pod === undefined) return facts;
  const liveFacts: LivePodFacts = { ...facts, pod };
  const [images, withMessages] = await Promise.all([
    observeImages(liveFacts, deps),
    withLogTails(liveFacts),
  ]);
  return { ...liveFacts, images, containers: withMessages };
}
