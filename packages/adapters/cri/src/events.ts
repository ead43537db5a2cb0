// SPDX-License-Identifier: Apache-2.0
// Which sandboxes and containers have changed? By containerd's own event service, else by CRI's; where a runtime has
// neither, everything is looked at again every ten seconds.
import { isAppError } from "@patchbay/core/errors";
import type { Clock } from "@patchbay/core/ports";
import type { Call, Endpoint } from "./grpc.ts";

/** How long it is waited before a stream is opened anew: at first, while the runtime is away, and at most; milliseconds. */
const PAUSE = { firstMs: 100, awayMaxMs: 1000, maxMs: 10_000 };

/**
 * containerd tells of a start and of an end before its CRI part has taken note of it: both are told again so much later,
 * milliseconds. Source: containerd CRI plugin, StartContainer, which writes the status down when the task has begun.
 */
const AGAIN_MS: readonly number[] = [100, 1000];

/** Where pods' containers are. Source: containerd CRI plugin, constants.K8sContainerdNamespace. */
export const CONTAINERD_NAMESPACE = "k8s.io";
const TASK_TOPICS: readonly string[] = ["/tasks/start", "/tasks/delete"];
const TOPICS: readonly string[] = [...TASK_TOPICS, "/containers/delete"];

/**
 * Shared by all who subscribe, in every version; of CRI's own stream the containerd of 1.7 gives each event to one
 * subscriber only, who may be the kubelet.
 */
const CONTAINERD_EVENTS: Call = {
  service: "containerd.services.events.v1.Events",
  method: "Subscribe",
  request: {
    filters: TOPICS.map((topic) => `namespace==${CONTAINERD_NAMESPACE},topic=="${topic}"`),
  },
};

const CRI_EVENTS: Call = {
  service: "runtime.v1.RuntimeService",
  method: "GetContainerEvents",
  request: {},
};

const VERSION: Call = { service: "runtime.v1.RuntimeService", method: "Version", request: {} };
const VERSION_TIMEOUT_MS = 10_000;

/** Source: containerd events Envelope. */
interface Envelope {
  readonly topic: string;
  readonly event: { readonly value: { readonly id: string } | null } | null;
}

/** Source: CRI ContainerEventResponse. */
interface ContainerEvent {
  readonly containerId: string;
}

/** What a watch needs. */
export interface EventDeps {
  readonly clock: Clock;
  /** The runtime. @throws AppError with CRI_UNAVAILABLE while nobody answers */
  endpoint(): Promise<Endpoint>;
}

type Changed = (id: string | undefined) => void;

/** Follows the runtime until aborted; each time that a connection is made it is told that anything may have changed. */
export function watchEvents(deps: EventDeps, changed: Changed, signal: AbortSignal): void {
  void new EventWatch(deps, changed, signal).run();
}

class EventWatch {
  readonly #deps: EventDeps;
  readonly #changed: Changed;
  readonly #signal: AbortSignal;
  #hasService = true;
  #pauseMs = PAUSE.firstMs;

  constructor(deps: EventDeps, changed: Changed, signal: AbortSignal) {
    this.#deps = deps;
    this.#changed = (id) => {
      if (!signal.aborted) changed(id);
    };
    this.#signal = signal;
  }

  async run(): Promise<void> {
    while (!this.#signal.aborted) {
      const error = await this.#follow();
      if (isAppError(error, "CRI_FAILED") && error.details["status"] === "UNIMPLEMENTED") {
        if (this.#hasService) {
          this.#hasService = false;
          continue;
        }
      }
      await this.#pause(isAppError(error, "CRI_UNAVAILABLE") ? PAUSE.awayMaxMs : PAUSE.maxMs);
    }
  }

  /** One stream, to its end; returns why it ended. */
  async #follow(): Promise<unknown> {
    try {
      const endpoint = await this.#deps.endpoint();
      const { promise: over, resolve } = Promise.withResolvers<unknown>();
      const cancel = this.#open(endpoint, resolve);
      this.#signal.addEventListener("abort", cancel, { once: true });
      try {
        // Its answer says that the stream, opened before it, has come there too.
        await endpoint.call(VERSION, VERSION_TIMEOUT_MS);
        this.#changed(undefined);
        return await over;
      } finally {
        this.#signal.removeEventListener("abort", cancel);
        cancel();
      }
    } catch (error) {
      return error;
    }
  }

  #open(endpoint: Endpoint, ended: (error: unknown) => void): () => void {
    if (this.#hasService) {
      const message = (envelope: Envelope): void => {
        this.#hear(envelope);
      };
      return endpoint.stream(CONTAINERD_EVENTS, { message, ended });
    }
    const message = ({ containerId }: ContainerEvent): void => {
      this.#pauseMs = PAUSE.firstMs;
      this.#changed(containerId);
    };
    return endpoint.stream(CRI_EVENTS, { message, ended });
  }

  #hear({ topic, event }: Envelope): void {
    const id = event?.value?.id;
    if (id === undefined) return;
    this.#pauseMs = PAUSE.firstMs;
    this.#changed(id);
    if (TASK_TOPICS.includes(topic)) void this.#tellAgain(id);
  }

  async #tellAgain(id: string): Promise<void> {
    for (const ms of AGAIN_MS) {
      if (!(await this.#slept(ms))) return;
      this.#changed(id);
    }
  }

  async #pause(maxMs: number): Promise<void> {
    const ms = Math.min(this.#pauseMs, maxMs);
    this.#pauseMs = Math.min(this.#pauseMs * 2, PAUSE.maxMs);
    await this.#slept(ms);
  }

  /** Whether nobody aborted meanwhile. */
  async #slept(ms: number): Promise<boolean> {
    try {
      await this.#deps.clock.sleep(ms, this.#signal);
      return true;
    } catch {
      return false; // aborted
    }
  }
}
