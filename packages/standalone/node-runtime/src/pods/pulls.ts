// SPDX-License-Identifier: Apache-2.0
import type { Container } from "@patchbay/api/kubernetes";
import { messageOf, type Clock, type Logger } from "@patchbay/base";
import { createStepBackoff } from "@patchbay/kube";
import type {
  ContainerImage,
  ContainerRuntime,
  RegistryCredentials,
} from "@patchbay/core/interfaces";
import type { ImageAccess } from "../images/access.ts";
import type { PullGuard } from "../images/pull-guard.ts";
import { isLocalName } from "../images/names.ts";
import {
  type ImageFacts,
  type Reason,
  listPodContainers,
  findLatest,
  nextAttempt,
  type LivePodFacts,
} from "./facts.ts";

export interface ImageUse {
  readonly uid: string;
  readonly reference: string;
  readonly policy: PullPolicy;
  /** Id of the start of a container or volume. Policy Always contacts the registry once per start. */
  readonly start: string;
}

interface PullNote {
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly message: string;
}

type FindCredentials = () => Promise<readonly RegistryCredentials[]>;

interface PullContext {
  note(note: PullNote): void;
  readonly credentials: FindCredentials;
}

export interface Pulls {
  find(use: ImageUse, credentials: FindCredentials): Promise<ImageFacts>;
  /** Starts the pull unless it is running. Enqueues the waiting pods when it ends. */
  begin(use: ImageUse, context: PullContext): void;
  forget(uid: string): void;
}

interface PullDeps {
  readonly runtime: ContainerRuntime;
  readonly access: ImageAccess;
  readonly guard: PullGuard;
  readonly clock: Clock;
  readonly log: Logger;
  readonly wake: (uid: string) => void;
}

/** Source: imageBackOff and MaxContainerBackOff of the kubelet. */
const PULL_BACKOFF = { firstMs: 10_000, maxMs: 300_000, jitter: 0.1 };
/** Interval of checks for an image that a user may add, which the runtime does not report. */
const MISSING_IMAGE_RECHECK_MS = 3000;

type PullPolicy = NonNullable<Container["imagePullPolicy"]>;

/** Source: default imagePullPolicy of Kubernetes. */
function defaultPullPolicy(reference: string, policy: PullPolicy | undefined): PullPolicy {
  if (policy !== undefined) return policy;
  const [last = ""] = reference.split("/").slice(-1);
  const isLatest = !last.includes("@") && (!last.includes(":") || last.endsWith(":latest"));
  return isLatest ? "Always" : "IfNotPresent";
}

class BackgroundPulls implements Pulls {
  readonly #deps: PullDeps;
  readonly #backoff;
  /** Uids of the pods that wait for a running pull, by image reference. */
  readonly #waitingPods = new Map<string, Set<string>>();
  readonly #pulledStarts = new Map<string, Set<string>>();

  constructor(deps: PullDeps) {
    this.#deps = deps;
    this.#backoff = createStepBackoff<Reason>({ clock: deps.clock, range: PULL_BACKOFF });
  }

  async find(use: ImageUse, credentials: FindCredentials): Promise<ImageFacts> {
    const { reference, policy } = use;
    const waiting = this.#waitingPods.get(reference);
    if (waiting !== undefined) {
      waiting.add(use.uid);
      return { kind: "pulling" };
    }
    const image = await this.#deps.runtime.findImage(reference);
    if (image !== undefined && (await this.#mayUse(use, image, credentials))) {
      return { kind: "present", image };
    }
    if (policy === "Never" && image !== undefined) return rejectImageOfOtherPods(reference);
    if (policy === "Never" || isLocalName(reference)) return rejectMissingImage(reference);
    const paused = this.#backoff.findDelay({ ...stepKey(use), inputs: "" });
    return paused === undefined ? { kind: "absent" } : { kind: "failed", ...paused };
  }

  begin(use: ImageUse, context: PullContext): void {
    const { reference: image } = use;
    const waiting = this.#waitingPods.get(image) ?? new Set();
    waiting.add(use.uid);
    if (this.#waitingPods.has(image)) return;
    this.#waitingPods.set(image, waiting);
    context.note({ type: "Normal", reason: "Pulling", message: `pulling image ${image}` });
    void this.#pull(use, context).finally(() => {
      this.#waitingPods.delete(image);
      for (const uid of waiting) this.#deps.wake(uid);
    });
  }

  forget(uid: string): void {
    this.#pulledStarts.delete(uid);
    this.#backoff.forget(uid);
  }

  /** Returns whether the pod may use the image on this machine without contacting the registry. */
  async #mayUse(
    use: ImageUse,
    image: ContainerImage,
    credentials: FindCredentials,
  ): Promise<boolean> {
    const { access } = this.#deps;
    const named = { reference: use.reference, image };
    if (this.#pulledStarts.get(use.uid)?.has(startKey(use)) === true) return true;
    if (await access.isAdded(named)) return true;
    return use.policy !== "Always" && (await access.isGranted(named, credentials));
  }

  async #pull(use: ImageUse, context: PullContext): Promise<void> {
    const { access, clock, guard, log, runtime } = this.#deps;
    const { reference: image } = use;
    const startMs = clock.monotonicMs();
    try {
      const candidates = await context.credentials();
      const { id, credentials } = await guard.run(image, (signal) =>
        pullWithAny({ runtime, signal }, image, candidates),
      );
      await access.recordPull(image, id, credentials);
      const durationMs = Math.round(clock.monotonicMs() - startMs);
      this.#backoff.succeed(stepKey(use));
      const pulledStarts = this.#pulledStarts.get(use.uid) ?? new Set();
      this.#pulledStarts.set(use.uid, pulledStarts.add(startKey(use)));
      log.info("image pulled", { object: image, durationMs });
      const message = `pulled image ${image} in ${String(durationMs)} ms`;
      context.note({ type: "Normal", reason: "Pulled", message });
    } catch (error) {
      const message = `image ${image} cannot be pulled: ${messageOf(error)}; to use a local file, ${addCommand(image)}`;
      const summary = { reason: "ImagePullBackOff", message };
      this.#backoff.fail({ ...stepKey(use), inputs: "" }, { code: "pull", summary });
      context.note({ type: "Warning", reason: "ErrImagePull", message });
    }
  }
}

interface PulledImage {
  readonly id: string;
  readonly credentials: RegistryCredentials | undefined;
}

async function pullWithAny(
  connection: { readonly runtime: ContainerRuntime; readonly signal: AbortSignal },
  image: string,
  [first, ...others]: readonly RegistryCredentials[],
): Promise<PulledImage> {
  try {
    return {
      id: await connection.runtime.pullImage(image, first, connection.signal),
      credentials: first,
    };
  } catch (error) {
    if (others.length === 0 || connection.signal.aborted) throw error;
    return pullWithAny(connection, image, others);
  }
}

/** Returns a key with the reference, because a pod's image may change before the container starts. */
function startKey({ reference, start }: ImageUse): string {
  return `${start} ${reference}`;
}

/** Returns a key per pod, because another pod's secret may succeed. Source: image_manager.go of the kubelet. */
function stepKey({ uid, reference }: ImageUse): { readonly scope: string; readonly name: string } {
  return { scope: uid, name: reference };
}

function addCommand(reference: string): string {
  return `add it with: patchbay image add ${reference} SOURCE`;
}

function buildNeverPullFailure(message: string): ImageFacts {
  return {
    kind: "failed",
    summary: { reason: "ErrImageNeverPull", message },
    pauseMs: MISSING_IMAGE_RECHECK_MS,
  };
}

function rejectMissingImage(reference: string): ImageFacts {
  const cause = isLocalName(reference) ? ", and no registry has names below localhost/" : "";
  return buildNeverPullFailure(
    `image ${reference} is not on this machine${cause}; ${addCommand(reference)}`,
  );
}

/** Rejects the image, because policy Never uses only images to which the pod has proven access. Source: KEP-2535. */
function rejectImageOfOtherPods(reference: string): ImageFacts {
  return buildNeverPullFailure(
    `image ${reference} was pulled with the pull secret of other pods; with imagePullPolicy ` +
      "IfNotPresent it is pulled again with this pod's own secret",
  );
}

export function createPulls(deps: PullDeps): Pulls {
  return new BackgroundPulls(deps);
}

export function listImageUses(facts: LivePodFacts): readonly ImageUse[] {
  const { pod, uid } = facts;
  const volumes = (pod.spec.volumes ?? []).flatMap(({ name, image }): readonly ImageUse[] => {
    if (image === undefined) return [];
    const { reference, pullPolicy } = image;
    const policy = defaultPullPolicy(reference, pullPolicy);
    return [{ uid, reference, policy, start: `volume ${name}` }];
  });
  const containers = listPodContainers(pod)
    .filter(({ name }) => findLatest(facts, name)?.state !== "RUNNING")
    .map(({ name, image: reference, imagePullPolicy }): ImageUse => {
      const policy = defaultPullPolicy(reference, imagePullPolicy);
      return { uid, reference, policy, start: `${name} ${String(nextAttempt(facts, name))}` };
    });
  return [...volumes, ...containers];
}
