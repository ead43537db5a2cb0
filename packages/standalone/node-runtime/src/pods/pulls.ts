// SPDX-License-Identifier: Apache-2.0
import type { Container } from "@patchbay/api/kubernetes";
import {
  AppError,
  messageOf,
  SHARE_KEYS,
  SharePool,
  type Clock,
  type Logger,
  type PoolLimits,
} from "@patchbay/base";
import { createStepBackoff } from "@patchbay/kube";
import type {
  ContainerImage,
  ContainerRuntime,
  RegistryCredentials,
} from "@patchbay/core/interfaces";
import type { ImageAccess, RegistryPolicy } from "../images/access.ts";
import type { PullGuard } from "../images/pull-guard.ts";
import { isLocalName } from "../images/names.ts";
import {
  type ImageFacts,
  type Reason,
  listPodContainers,
  findLatest,
  computeNextAttempt,
  type LivePodFacts,
} from "./facts.ts";

export interface ImageUse {
  readonly uid: string;
  readonly namespace: string;
  readonly reference: string;
  readonly policy: PullPolicy;
  /** Id of a use of the image: `volume NAME` or `CONTAINER ATTEMPT`. With policy Always, the image is pulled only once for each id. */
  readonly startId: string;
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
  /** Starts a pull unless the image is being pulled. Enqueues the waiting pods when the pull ends. */
  begin(use: ImageUse, context: PullContext): void;
  forget(uid: string): void;
}

interface PullDeps {
  readonly runtime: ContainerRuntime;
  readonly access: ImageAccess;
  readonly registries: RegistryPolicy;
  readonly guard: PullGuard;
  readonly clock: Clock;
  readonly log: Logger;
  readonly wake: (uid: string) => void;
}

/** Limits on the pulls of a namespace and of the node. */
const PULL_LIMITS: PoolLimits = { max: 8, share: 3, reserve: 1 };

/** Source: imageBackOff and MaxContainerBackOff of the kubelet. */
const PULL_BACKOFF = { firstMs: 10_000, maxMs: 300_000, jitter: 0.1 };
/** Interval of checks for a missing image. Polling is necessary, because the runtime does not report images that a user adds. */
const MISSING_IMAGE_RECHECK_MS = 3000;

type PullPolicy = NonNullable<Container["imagePullPolicy"]>;

/** Source: default imagePullPolicy of Kubernetes. */
function choosePullPolicy(reference: string, policy: PullPolicy | undefined): PullPolicy {
  if (policy !== undefined) return policy;
  const [lastPart = ""] = reference.split("/").slice(-1);
  const isLatest =
    !lastPart.includes("@") && (!lastPart.includes(":") || lastPart.endsWith(":latest"));
  return isLatest ? "Always" : "IfNotPresent";
}

interface RunningPull {
  readonly waitingPods: Set<string>;
  /** Namespaces that wait for a slot. The first one that gets a slot pulls for all, so that no namespace waits in another one's queue. */
  readonly namespaces: Set<string>;
  readonly start: AbortController;
}

class BackgroundPulls implements Pulls {
  readonly #deps: PullDeps;
  readonly #backoff;
  readonly #slots = new SharePool(PULL_LIMITS);
  readonly #pulls = new Map<string, RunningPull>();
  readonly #pulledStarts = new Map<string, Set<string>>();

  constructor(deps: PullDeps) {
    this.#deps = deps;
    this.#backoff = createStepBackoff<Reason>({ clock: deps.clock, range: PULL_BACKOFF });
  }

  async find(use: ImageUse, credentials: FindCredentials): Promise<ImageFacts> {
    const { namespace, reference, policy, uid } = use;
    const problem = await this.#deps.registries.findNamedProblem(use);
    if (problem !== undefined) return rejectRegistry(reference, problem);
    const pull = this.#pulls.get(reference);
    if (pull !== undefined && (pull.start.signal.aborted || pull.namespaces.has(namespace))) {
      pull.waitingPods.add(uid);
      return { kind: "pulling" };
    }
    const image = await this.#deps.runtime.findImage(reference);
    if (image !== undefined && (await this.#mayUse(use, image, credentials))) {
      return { kind: "present", image };
    }
    if (policy === "Never" && image !== undefined) return rejectImageOfOtherPods(reference);
    if (policy === "Never" || isLocalName(reference)) return rejectMissingImage(reference);
    const pausedPull = this.#backoff.findDelay({ ...buildStepKey(use), inputs: "" });
    return pausedPull === undefined ? { kind: "absent" } : { kind: "failed", ...pausedPull };
  }

  begin(use: ImageUse, context: PullContext): void {
    const { namespace, reference } = use;
    const pull = this.#pulls.get(reference) ?? {
      waitingPods: new Set(),
      namespaces: new Set(),
      start: new AbortController(),
    };
    this.#pulls.set(reference, pull);
    pull.waitingPods.add(use.uid);
    if (pull.start.signal.aborted || pull.namespaces.has(namespace)) return;
    pull.namespaces.add(namespace);
    void this.#pullInTurn(pull, use, context);
  }

  forget(uid: string): void {
    for (const { waitingPods } of this.#pulls.values()) waitingPods.delete(uid);
    this.#pulledStarts.delete(uid);
    this.#backoff.forget(uid);
  }

  /** Returns whether the pod may use this machine's image without pulling it again. */
  async #mayUse(
    use: ImageUse,
    image: ContainerImage,
    credentials: FindCredentials,
  ): Promise<boolean> {
    const { access } = this.#deps;
    const namedImage = { reference: use.reference, image };
    if (this.#pulledStarts.get(use.uid)?.has(buildStartKey(use)) === true) return true;
    if (await access.isAdded(namedImage)) return true;
    return use.policy !== "Always" && (await access.isGranted(namedImage, credentials));
  }

  async #pullInTurn(pull: RunningPull, use: ImageUse, context: PullContext): Promise<void> {
    const { start, waitingPods } = pull;
    const key = SHARE_KEYS.namespace(use.namespace);
    const release = await this.#slots.acquire(key, 1, start.signal);
    if (release === undefined) return;
    try {
      if (start.signal.aborted) return;
      start.abort();
      // All pods of the queue may have been deleted.
      if (waitingPods.size > 0) await this.#pull(use, context);
    } finally {
      release();
    }
    this.#pulls.delete(use.reference);
    for (const uid of waitingPods) this.#deps.wake(uid);
  }

  async #pull(use: ImageUse, context: PullContext): Promise<void> {
    const { access, clock, guard, log, registries, runtime } = this.#deps;
    const { reference: image } = use;
    const startMs = clock.monotonicMs();
    context.note({ type: "Normal", reason: "Pulling", message: `pulling image ${image}` });
    try {
      const reason = await registries.findResolvedProblem(use);
      if (reason !== undefined) throw new AppError("RUNTIME_REGISTRY_FORBIDDEN", { reason });
      const candidates = await context.credentials();
      const { id, credentials } = await guard.run(image, (signal) =>
        pullWithAny({ runtime, signal }, image, candidates),
      );
      await access.recordPull(image, id, credentials);
      const durationMs = Math.round(clock.monotonicMs() - startMs);
      this.#backoff.succeed(buildStepKey(use));
      const pulledStarts = this.#pulledStarts.get(use.uid) ?? new Set();
      this.#pulledStarts.set(use.uid, pulledStarts.add(buildStartKey(use)));
      log.info("image pulled", { object: image, durationMs });
      const message = `pulled image ${image} in ${String(durationMs)} ms`;
      context.note({ type: "Normal", reason: "Pulled", message });
    } catch (error) {
      const message = `image ${image} cannot be pulled: ${messageOf(error)}; to use a local file, ${printAddCommand(image)}`;
      const summary = { reason: "ImagePullBackOff", message };
      this.#backoff.fail({ ...buildStepKey(use), inputs: "" }, { code: "pull", summary });
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
  [credentials, ...otherCredentials]: readonly RegistryCredentials[],
): Promise<PulledImage> {
  try {
    return {
      id: await connection.runtime.pullImage(image, credentials, connection.signal),
      credentials,
    };
  } catch (error) {
    if (otherCredentials.length === 0 || connection.signal.aborted) throw error;
    return pullWithAny(connection, image, otherCredentials);
  }
}

/** Returns the key of an image use. The key contains the reference, because a pod's image may change before the container starts. */
function buildStartKey({ reference, startId }: ImageUse): string {
  return `${startId} ${reference}`;
}

/** Builds a backoff key for each pod, because a pull can succeed with another pod's secret. Source: image_manager.go of the kubelet. */
function buildStepKey({ uid, reference }: ImageUse): {
  readonly scope: string;
  readonly name: string;
} {
  return { scope: uid, name: reference };
}

function printAddCommand(reference: string): string {
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
    `image ${reference} is not on this machine${cause}; ${printAddCommand(reference)}`,
  );
}

const FORBIDDEN_REGISTRY_RECHECK_MS = 30_000;

function rejectRegistry(reference: string, problem: string): ImageFacts {
  return {
    kind: "failed",
    summary: { reason: "ErrImagePull", message: `image ${reference} is not pulled: ${problem}` },
    pauseMs: FORBIDDEN_REGISTRY_RECHECK_MS,
  };
}

/** Rejects an image that was pulled with other pods' secrets. With policy Never, this pod cannot prove its access. Source: KEP-2535. */
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
  const { namespace = "" } = pod.metadata;
  const volumes = (pod.spec.volumes ?? []).flatMap(({ name, image }): readonly ImageUse[] => {
    if (image === undefined) return [];
    const { reference, pullPolicy } = image;
    const policy = choosePullPolicy(reference, pullPolicy);
    return [{ uid, namespace, reference, policy, startId: `volume ${name}` }];
  });
  const containers = listPodContainers(pod)
    .filter(({ name }) => findLatest(facts, name)?.state !== "RUNNING")
    .map(({ name, image: reference, imagePullPolicy }): ImageUse => {
      const policy = choosePullPolicy(reference, imagePullPolicy);
      return {
        uid,
        namespace,
        reference,
        policy,
        startId: `${name} ${String(computeNextAttempt(facts, name))}`,
      };
    });
  return [...volumes, ...containers];
}
