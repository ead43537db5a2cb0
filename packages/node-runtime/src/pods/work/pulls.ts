// SPDX-License-Identifier: Apache-2.0
// Images that containers need: there, being fetched, or not to be had. No pass waits for a registry.
import type { Container } from "@patchbay/api";
import { messageOf } from "@patchbay/core";
import { createPauses } from "@patchbay/kube";
import type {
  Clock,
  ContainerImage,
  ContainerRuntime,
  Logger,
  RegistryCredentials,
} from "@patchbay/ports";
import { isAdded, isLocal, type ImageAccess } from "../../images/image-access.ts";
import type { ImageFacts, Reason } from "../facts.ts";

/** What needs an image. */
export interface ImageUse {
  readonly uid: string;
  /** Of the pod: what was pulled for another one is not there for it. */
  readonly namespace: string;
  readonly reference: string;
  readonly policy: PullPolicy;
  /** Which start of which container: policy Always asks the registry once for each. */
  readonly start: string;
}

/** What of a pull people are told. */
export interface PullNote {
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly message: string;
}

/** Who a pull is for. */
export interface PullAsker {
  note(note: PullNote): void;
  /** As whom the registry is asked, in this order until it answers; none: as nobody. */
  credentials(): Promise<readonly RegistryCredentials[]>;
}

/** Pulls that are under way, and how the last ones ended. */
export interface Pulls {
  find(use: ImageUse): Promise<ImageFacts>;
  /** Fetches the image, unless that is under way; wakes the pods that wait for it. */
  begin(use: ImageUse, asker: PullAsker): void;
  forget(uid: string): void;
}

/** What pulls need. */
export interface PullDeps {
  readonly runtime: ContainerRuntime;
  readonly access: ImageAccess;
  readonly clock: Clock;
  readonly log: Logger;
  readonly wake: (uid: string) => void;
}

/** Source: Kubernetes kubelet, imageBackOff and MaxContainerBackOff. */
const RANGE = { firstMs: 10_000, maxMs: 300_000, jitter: 0.1 };
/** The runtime tells nobody of images that a person adds, so one that waits for it asks again, milliseconds. */
const ABSENT_MS = 3000;

/** Source: Kubernetes core/v1 PullPolicy. */
export type PullPolicy = NonNullable<Container["imagePullPolicy"]>;

/** Source: Kubernetes, default imagePullPolicy. */
export function pullPolicyOf(reference: string, policy: PullPolicy | undefined): PullPolicy {
  if (policy !== undefined) return policy;
  const [last = ""] = reference.split("/").slice(-1);
  const isLatest = !last.includes("@") && (!last.includes(":") || last.endsWith(":latest"));
  return isLatest ? "Always" : "IfNotPresent";
}

class BackgroundPulls implements Pulls {
  readonly #deps: PullDeps;
  readonly #pauses;
  /** uids that wait, by reference. */
  readonly #underWay = new Map<string, Set<string>>();
  /** Starts whose image was fetched for them, by uid: policy Always asks the registry for each. */
  readonly #fetched = new Map<string, Set<string>>();

  constructor(deps: PullDeps) {
    this.#deps = deps;
    this.#pauses = createPauses<Reason>({ clock: deps.clock, range: RANGE });
  }

  async find(use: ImageUse): Promise<ImageFacts> {
    const { reference, policy } = use;
    const waiting = this.#underWay.get(reference);
    if (waiting !== undefined) {
      waiting.add(use.uid);
      return { kind: "pulling" };
    }
    const image = await this.#deps.runtime.findImage(reference);
    if (image !== undefined && this.#mayHave(use, image)) return { kind: "present", image };
    if (policy === "Never" || isLocal(reference)) {
      return absent(reference, image === undefined ? "is not there" : "was pulled for others");
    }
    const held = this.#pauses.findHeld({ ...stepOf(use), circumstances: "" });
    return held === undefined ? { kind: "absent" } : { kind: "failed", ...held };
  }

  /** Whether the pod has the image without asking its registry: what an administrator has added stays as it is. */
  #mayHave({ uid, namespace, reference, policy, start }: ImageUse, image: ContainerImage): boolean {
    if (isAdded(reference, image)) return true;
    const isFetched = this.#fetched.get(uid)?.has(start) === true;
    return this.#deps.access.mayUse(image.id, namespace) && (policy !== "Always" || isFetched);
  }

  begin(use: ImageUse, asker: PullAsker): void {
    const { reference: image } = use;
    const waiting = this.#underWay.get(image) ?? new Set();
    waiting.add(use.uid);
    if (this.#underWay.has(image)) return;
    this.#underWay.set(image, waiting);
    asker.note({ type: "Normal", reason: "Pulling", message: `pulling image ${image}` });
    void this.#pull(use, asker).finally(() => {
      this.#underWay.delete(image);
      for (const uid of waiting) this.#deps.wake(uid);
    });
  }

  forget(uid: string): void {
    this.#fetched.delete(uid);
    this.#pauses.forget(uid);
  }

  async #pull(use: ImageUse, asker: PullAsker): Promise<void> {
    const { access, clock, log, runtime } = this.#deps;
    const { reference: image } = use;
    const startMs = clock.monotonicMs();
    try {
      const { id, isPublic } = await pullAs(runtime, image, await asker.credentials());
      await access.grant(id, isPublic ? undefined : use.namespace);
      const durationMs = Math.round(clock.monotonicMs() - startMs);
      this.#pauses.succeed(stepOf(use));
      const fetched = this.#fetched.get(use.uid) ?? new Set();
      this.#fetched.set(use.uid, fetched.add(use.start));
      log.info("image pulled", { object: image, durationMs });
      const message = `pulled image ${image} in ${String(durationMs)} ms`;
      asker.note({ type: "Normal", reason: "Pulled", message });
    } catch (error) {
      const message = `image ${image} cannot be pulled: ${messageOf(error)}; from a file, ${addition(image)}`;
      const shown = { reason: "ImagePullBackOff", message };
      this.#pauses.fail({ ...stepOf(use), circumstances: "" }, { code: "pull", shown });
      asker.note({ type: "Warning", reason: "ErrImagePull", message });
    }
  }
}

/** Tells the last refusal when nobody of them may have it. */
async function pullAs(
  runtime: ContainerRuntime,
  image: string,
  [first, ...others]: readonly RegistryCredentials[],
): Promise<{ readonly id: string; readonly isPublic: boolean }> {
  try {
    return { id: await runtime.pullImage(image, first), isPublic: first === undefined };
  } catch (error) {
    if (others.length === 0) throw error;
    return pullAs(runtime, image, others);
  }
}

/** Each pod's own: what the registry refuses one, another's secret may open. Source: Kubernetes kubelet, image_manager.go. */
function stepOf({ uid, reference }: ImageUse): { readonly scope: string; readonly name: string } {
  return { scope: uid, name: reference };
}

/** What a person does who has the image. */
function addition(reference: string): string {
  return `add it with: patchbay image add ${reference} SOURCE`;
}

function absent(reference: string, why: string): ImageFacts {
  const message = `image ${reference} ${why}; ${addition(reference)}`;
  return { kind: "failed", shown: { reason: "ErrImageNeverPull", message }, pauseMs: ABSENT_MS };
}

/** No pull is under way at first, and none has failed. */
export function createPulls(deps: PullDeps): Pulls {
  return new BackgroundPulls(deps);
}
