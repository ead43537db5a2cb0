// SPDX-License-Identifier: Apache-2.0
// Watches sandboxes and containers over containerd's event service or CRI's event stream. Without both, reports a change every ten seconds.
import { isAppError, type Clock } from "@patchbay/base";

import type { Call, Endpoint } from "./grpc.ts";

/** Delays before a stream is reopened, in milliseconds. `downMaxMs` is the maximum while the runtime does not answer, `maxMs` otherwise. */
const RECONNECT_PAUSE = { firstMs: 100, downMaxMs: 1000, maxMs: 10_000 };

/** Each event is reported again after these delays, in ms: CRI may show a change only after its event. Source: containerd StartContainer */
const REPEAT_DELAYS_MS: readonly number[] = [100, 1000, 5000, 30_000];

/** Source: containerd CRI plugin, constants.K8sContainerdNamespace. */
export const CONTAINERD_NAMESPACE = "k8s.io";
const TASK_TOPICS: readonly string[] = ["/tasks/start", "/tasks/delete"];
const TOPICS: readonly string[] = [...TASK_TOPICS, "/containers/delete"];

/** The client prefers this stream to CRI's event stream, because containerd 1.7 delivers each CRI event to only one client. */
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

const VERSION_CALL: Call = { service: "runtime.v1.RuntimeService", method: "Version", request: {} };
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

export interface EventDeps {
  readonly clock: Clock;
  /** @throws AppError with CRI_UNAVAILABLE while the runtime does not answer */
  endpoint(): Promise<Endpoint>;
}

type OnChange = (id: string | undefined) => void;

/** Reports the IDs of changed sandboxes and containers. On a reconnect, calls `onChange` without an ID, because events may be missing. */
export function watchEvents(deps: EventDeps, onChange: OnChange, signal: AbortSignal): void {
  void new EventWatch(deps, onChange, signal).run();
}

class EventWatch {
  readonly #deps: EventDeps;
  readonly #onChange: OnChange;
  readonly #signal: AbortSignal;
  #hasEventService = true;
  #pauseMs = RECONNECT_PAUSE.firstMs;

  constructor(deps: EventDeps, onChange: OnChange, signal: AbortSignal) {
    this.#deps = deps;
    this.#onChange = (id) => {
      if (!signal.aborted) onChange(id);
    };
    this.#signal = signal;
  }

  async run(): Promise<void> {
    while (!this.#signal.aborted) {
      const error = await this.#follow();
      if (isAppError(error, "CRI_FAILED") && error.details["status"] === "UNIMPLEMENTED") {
        if (this.#hasEventService) {
          this.#hasEventService = false;
          continue;
        }
      }
      await this.#pause(
        isAppError(error, "CRI_UNAVAILABLE") ? RECONNECT_PAUSE.downMaxMs : RECONNECT_PAUSE.maxMs,
      );
    }
  }

  async #follow(): Promise<unknown> {
    try {
      const endpoint = await this.#deps.endpoint();
      const { promise: streamEnd, resolve } = Promise.withResolvers<unknown>();
      const cancel = this.#open(endpoint, resolve);
      this.#signal.addEventListener("abort", cancel, { once: true });
      try {
        // The stream was opened before this call, so the response proves that the stream is established.
        await endpoint.call(VERSION_CALL, VERSION_TIMEOUT_MS);
        this.#onChange(undefined);
        return await streamEnd;
      } finally {
        this.#signal.removeEventListener("abort", cancel);
        cancel();
      }
    } catch (error) {
      return error;
    }
  }

  #open(endpoint: Endpoint, onEnd: (error: unknown) => void): () => void {
    if (this.#hasEventService) {
      const onMessage = (envelope: Envelope): void => {
        this.#handleEnvelope(envelope);
      };
      return endpoint.stream(CONTAINERD_EVENTS, { onMessage, onEnd });
    }
    const onMessage = ({ containerId }: ContainerEvent): void => {
      this.#pauseMs = RECONNECT_PAUSE.firstMs;
      this.#onChange(containerId);
    };
    return endpoint.stream(CRI_EVENTS, { onMessage, onEnd });
  }

  #handleEnvelope({ topic, event }: Envelope): void {
    const id = event?.value?.id;
    if (id === undefined) return;
    this.#pauseMs = RECONNECT_PAUSE.firstMs;
    this.#onChange(id);
    if (TASK_TOPICS.includes(topic)) void this.#repeat(id);
  }

  async #repeat(id: string): Promise<void> {
    for (const ms of REPEAT_DELAYS_MS) {
      if (!(await this.#sleep(ms))) return;
      this.#onChange(id);
    }
  }

  async #pause(maxMs: number): Promise<void> {
    const ms = Math.min(this.#pauseMs, maxMs);
    this.#pauseMs = Math.min(this.#pauseMs * 2, RECONNECT_PAUSE.maxMs);
    await this.#sleep(ms);
  }

  async #sleep(ms: number): Promise<boolean> {
    try {
      await this.#deps.clock.sleep(ms, this.#signal);
      return true;
    } catch {
      return false;
    }
  }
}
