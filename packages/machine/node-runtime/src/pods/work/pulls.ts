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
} from "@patchbay/core/ports";
import type { ImageAccess } from "../../images/access.ts";
import type { PullGuard } from "../../images/pull-guard.ts";
import { isLocalName } from "../../images/names.ts";
import type { ImageFacts, Reason } from "../facts.ts";

/** What needs an image. */
export interface ImageUse {
  readonly uid: string;
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

/** As whom the registry is asked, in this order until it answers; none: as nobody. */
export type FindCredentials = () => Promise<readonly RegistryCredentials[]>;

/** Who a pull is for. */
export interface PullAsker {
  note(note: PullNote): void;
  readonly credentials: FindCredentials;
}

/** Pulls that are under way, and how the last ones ended. */
export interface Pulls {
  find(use: ImageUse, credentials: FindCredentials): Promise<ImageFacts>;
  /** Fetches the image, unless that is under way; wakes the pods that wait for it. */
  begin(use: ImageUse, asker: PullAsker): void;
  forget(uid: string): void;
}

/** What pulls need. */
export interface PullDeps {
  readonly runtime: ContainerRuntime;
  readonly access: ImageAccess;
  readonly guard: PullGuard;
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
  /** Starts for which an image was fetched, by uid: policy Always asks the registry for each. */
  readonly #fetched = new Map<string, Set<string>>();

  constructor(deps: PullDeps) {
    this.#deps = deps;
    this.#pauses = createPauses<Reason>({ clock: deps.clock, range: RANGE });
  }

  async find(use: ImageUse, credentials: FindCredentials): Promise<ImageFacts> {
    const { reference, policy } = use;
    const waiting = this.#underWay.get(reference);
    if (waiting !== undefined) {
      waiting.add(use.uid);
      return { kind: "pulling" };
    }
    const image = await this.#deps.runtime.findImage(reference);
    if (image !== undefined && (await this.#mayHave(use, image, credentials))) {
      return { kind: "present", image };
    }
    if (policy === "Never" && image !== undefined) return foreign(reference);
    if (policy === "Never" || isLocalName(reference)) return absent(reference);
    const held = this.#pauses.findHeld({ ...stepOf(use), circumstances: "" });
    return held === undefined ? { kind: "absent" } : { kind: "failed", ...held };
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

  /** Without a word of the registry: what was added, was fetched for this start, or was given to this pod before. */
  async #mayHave(
    use: ImageUse,
    image: ContainerImage,
    credentials: FindCredentials,
  ): Promise<boolean> {
    const { access } = this.#deps;
    const named = { reference: use.reference, image };
    if (this.#fetched.get(use.uid)?.has(startOf(use)) === true) return true;
    if (await access.isAdded(named)) return true;
    return use.policy !== "Always" && (await access.mayUse(named, credentials));
  }

  async #pull(use: ImageUse, asker: PullAsker): Promise<void> {
    const { access, clock, guard, log, runtime } = this.#deps;
    const { reference: image } = use;
    const startMs = clock.monotonicMs();
    try {
      const told = await asker.credentials();
      const { id, credentials } = await guard.run(image, (signal) =>
        pullAs({ runtime, signal }, image, told),
      );
      await access.fetched(image, id, credentials);
      const durationMs = Math.round(clock.monotonicMs() - startMs);
      this.#pauses.succeed(stepOf(use));
      const fetched = this.#fetched.get(use.uid) ?? new Set();
      this.#fetched.set(use.uid, fetched.add(startOf(use)));
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

/** What a registry has given, and to whom. */
interface Pulled {
  readonly id: string;
  readonly credentials: RegistryCredentials | undefined;
}

/** Tells the last refusal when nobody of them may have it. */
async function pullAs(
  by: { readonly runtime: ContainerRuntime; readonly signal: AbortSignal },
  image: string,
  [first, ...others]: readonly RegistryCredentials[],
): Promise<Pulled> {
  try {
    return { id: await by.runtime.pullImage(image, first, by.signal), credentials: first };
  } catch (error) {
    if (others.length === 0 || by.signal.aborted) throw error;
    return pullAs(by, image, others);
  }
}

/** A pod's container may be given another image before its start. */
function startOf({ reference, start }: ImageUse): string {
  return `${start} ${reference}`;
}

/** Each pod's own: what the registry refuses one, another's secret may open. Source: Kubernetes kubelet, image_manager.go. */
function stepOf({ uid, reference }: ImageUse): { readonly scope: string; readonly name: string } {
  return { scope: uid, name: reference };
}

/** What a person does who has the image. */
function addition(reference: string): string {
  return `add it with: patchbay image add ${reference} SOURCE`;
}

function refused(message: string): ImageFacts {
  return { kind: "failed", shown: { reason: "ErrImageNeverPull", message }, pauseMs: ABSENT_MS };
}

function absent(reference: string): ImageFacts {
  const why = isLocalName(reference) ? ", and no registry has names below localhost/" : "";
  return refused(`image ${reference} is not on this machine${why}; ${addition(reference)}`);
}

/** Source: KEP-2535: policy Never gives no pod what it has not shown to be its own. */
function foreign(reference: string): ImageFacts {
  return refused(
    `image ${reference} was pulled with the pull secret of other pods; with imagePullPolicy ` +
      "IfNotPresent the registry is asked with this pod's own",
  );
}

/** No pull is under way at first, and none has failed. */
export function createPulls(deps: PullDeps): Pulls {
  return new BackgroundPulls(deps);
}
