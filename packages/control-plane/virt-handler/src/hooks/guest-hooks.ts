// SPDX-License-Identifier: Apache-2.0
// Calls hooks in the background and stores their answers, so that no pass of the loop waits for a hook.
import { isAppError, type Clock, type Logger } from "@patchbay/base";
import type { HookSidecars, LauncherPod } from "@patchbay/core/interfaces";
import {
  callHooks,
  notifyEnd,
  type HookAnswers,
  type HookedPod,
  type HookRequest,
} from "./call-hooks.ts";

/** Maximum number of concurrent calls on the node. Each takes about 60 MiB. */
const HOOK_CALLS_MAX = 8;
/** Maximum number of concurrent calls of one namespace, so that its hanging hooks do not block other namespaces. */
const HOOK_CALLS_PER_NAMESPACE_MAX = 2;

interface WaitingCall {
  readonly namespace: string;
  readonly begin: () => void;
}

/** Runs work in order of arrival when a slot is free. Work of a namespace at its limit waits longer. */
export class Slots {
  readonly #running: string[] = [];
  readonly #waiting: WaitingCall[] = [];

  async run<T>(namespace: string, work: () => Promise<T>): Promise<T> {
    const { promise, resolve } = Promise.withResolvers<undefined>();
    const begin = (): void => {
      this.#running.push(namespace);
      resolve(undefined);
    };
    this.#waiting.push({ namespace, begin });
    this.#startWaiting();
    await promise;
    try {
      return await work();
    } finally {
      this.#running.splice(this.#running.indexOf(namespace), 1);
      this.#startWaiting();
    }
  }

  #hasFreeSlot(namespace: string): boolean {
    const own = this.#running.filter((one) => one === namespace).length;
    return this.#running.length < HOOK_CALLS_MAX && own < HOOK_CALLS_PER_NAMESPACE_MAX;
  }

  #startWaiting(): void {
    for (const waiting of [...this.#waiting]) {
      if (!this.#hasFreeSlot(waiting.namespace)) continue;
      this.#waiting.splice(this.#waiting.indexOf(waiting), 1);
      waiting.begin();
    }
  }
}

/** Retry interval for a sidecar that does not listen yet, in milliseconds. Source: KubeVirt pkg/hooks manager.go, 1 s. */
const HOOK_RETRY_INTERVAL_MS = 500;
/** Number of attempts after which the call has failed; together they take a minute. */
const CALL_ATTEMPTS_MAX = 120;

export type HookState =
  | { readonly kind: "calling" }
  | ({ readonly kind: "answered" } & HookAnswers)
  | { readonly kind: "failed"; readonly error: unknown };

export interface GuestHooks {
  /** Returns the state of the calls for this domain. Starts them if necessary, and calls `wake` when they succeed or fail. */
  ensureCalled(request: HookRequest, wake: () => void): HookState;
  /** Removes a reported failure, so that the next `ensureCalled` calls the hooks again. */
  retry(pod: LauncherPod): void;
  started(pod: LauncherPod): void;
  /** Notifies the hooks of the guest's end once, if they are reachable. */
  ended(place: HookedPod): void;
  forget(pod: LauncherPod): void;
}

interface PodCalls {
  readonly domainXml: string | undefined;
  readonly end: AbortController;
  state: HookState;
}

interface GuestHooksOptions {
  readonly hooks: HookSidecars;
  readonly clock: Clock;
  readonly log: Logger;
}

class NodeGuestHooks implements GuestHooks {
  readonly #options: GuestHooksOptions;
  readonly #entries = new Map<string, PodCalls>();
  readonly #notified = new Set<string>();
  readonly #slots = new Slots();

  constructor(options: GuestHooksOptions) {
    this.#options = options;
  }

  ensureCalled(request: HookRequest, wake: () => void): HookState {
    const { domainXml, pod } = request;
    const known = this.#entries.get(pod.uid);
    if (known !== undefined && known.domainXml === domainXml) return known.state;
    known?.end.abort();
    const entry: PodCalls = { domainXml, end: new AbortController(), state: { kind: "calling" } };
    this.#entries.set(pod.uid, entry);
    void this.#callHooks(request, entry, wake);
    return entry.state;
  }

  retry({ uid }: LauncherPod): void {
    if (this.#entries.get(uid)?.state.kind === "failed") this.#entries.delete(uid);
  }

  started({ uid }: LauncherPod): void {
    this.#entries.get(uid)?.end.abort();
    this.#entries.delete(uid);
  }

  ended(place: HookedPod): void {
    const { uid, namespace } = place.pod;
    if (place.sidecars.length === 0 || this.#notified.has(uid)) return;
    this.#notified.add(uid);
    const { hooks, log } = this.#options;
    this.#slots
      .run(namespace, () => notifyEnd(place, hooks))
      .catch((err: unknown) => {
        log.warn("failed to notify a hook of its guest's end", { uid, err });
      });
  }

  forget(pod: LauncherPod): void {
    this.started(pod);
    this.#notified.delete(pod.uid);
  }

  async #callHooks(request: HookRequest, entry: PodCalls, wake: () => void): Promise<void> {
    const { clock, log } = this.#options;
    const startedMs = clock.monotonicMs();
    const state = await this.#callWithRetries(request, entry.end.signal);
    if (entry.end.signal.aborted) return;
    entry.state = state;
    const durationMs = Math.round(clock.monotonicMs() - startedMs);
    const { uid } = request.pod;
    if (state.kind === "answered") log.info("called the guest's hooks", { uid, durationMs });
    wake();
  }

  async #callWithRetries(request: HookRequest, signal: AbortSignal): Promise<HookState> {
    const { clock, hooks } = this.#options;
    const { namespace } = request.pod;
    for (let attempts = 1; ; attempts += 1) {
      try {
        const hooked = await this.#slots.run(namespace, () => callHooks(request, hooks));
        return { kind: "answered", ...hooked };
      } catch (error) {
        const isUnreachable = isAppError(error, "HOOK_UNREACHABLE");
        if (!isUnreachable || attempts === CALL_ATTEMPTS_MAX || signal.aborted)
          return { kind: "failed", error };
      }
      await clock.sleep(HOOK_RETRY_INTERVAL_MS, signal).catch(() => undefined); // aborted: the answer is no longer needed
    }
  }
}

export function createGuestHooks(options: GuestHooksOptions): GuestHooks {
  return new NodeGuestHooks(options);
}
