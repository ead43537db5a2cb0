// SPDX-License-Identifier: Apache-2.0
// Calls hooks in the background and stores their answers, so that no pass of the loop waits for a hook.
import { isAppError, SHARE_KEYS, SharePool, type Clock, type Logger } from "@patchbay/base";
import type { HookSidecars, LauncherPod } from "@patchbay/core/interfaces";
import {
  callHooks,
  notifyEnd,
  type HookAnswers,
  type HookedPod,
  type HookRequest,
} from "./call-hooks.ts";

/** Limits on concurrent hook calls, so that hanging hooks do not block other namespaces. Each call takes about 60 MiB of memory. */
const HOOK_CALL_LIMITS = { max: 8, share: 2 };

/** Interval between attempts to reach a sidecar that does not listen yet, in milliseconds. KubeVirt uses 1 s in pkg/hooks/manager.go. */
const HOOK_RETRY_INTERVAL_MS = 500;
/** Maximum number of attempts to call the hooks. All attempts together take about a minute. */
const CALL_ATTEMPTS_MAX = 120;

export type HookState =
  | { readonly kind: "calling" }
  | ({ readonly kind: "answered" } & HookAnswers)
  | { readonly kind: "failed"; readonly error: unknown };

export interface GuestHooks {
  /** Returns the state of the hook calls for the domain. Starts the calls if necessary, and calls `wake` when they end. */
  ensureCalled(request: HookRequest, wake: () => void): HookState;
  /** Clears a failure, so that the next `ensureCalled` calls the hooks again. */
  retry(pod: LauncherPod): void;
  onGuestStart(pod: LauncherPod): void;
  /** Notifies the hooks, at most once, that the guest has ended. A failure is only logged. */
  onGuestEnd(hookedPod: HookedPod): void;
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
  readonly #calls = new SharePool(HOOK_CALL_LIMITS);

  constructor(options: GuestHooksOptions) {
    this.#options = options;
  }

  ensureCalled(request: HookRequest, wake: () => void): HookState {
    const { domainXml, pod } = request;
    const previous = this.#entries.get(pod.uid);
    if (previous !== undefined && previous.domainXml === domainXml) return previous.state;
    previous?.end.abort();
    const entry: PodCalls = { domainXml, end: new AbortController(), state: { kind: "calling" } };
    this.#entries.set(pod.uid, entry);
    void this.#callHooks(request, entry, wake);
    return entry.state;
  }

  retry({ uid }: LauncherPod): void {
    if (this.#entries.get(uid)?.state.kind === "failed") this.#entries.delete(uid);
  }

  onGuestStart({ uid }: LauncherPod): void {
    this.#entries.get(uid)?.end.abort();
    this.#entries.delete(uid);
  }

  onGuestEnd(hookedPod: HookedPod): void {
    const { uid, namespace } = hookedPod.pod;
    if (hookedPod.sidecars.length === 0 || this.#notified.has(uid)) return;
    this.#notified.add(uid);
    const { hooks, log } = this.#options;
    this.#calls
      .run(SHARE_KEYS.namespace(namespace), () => notifyEnd(hookedPod, hooks))
      .catch((err: unknown) => {
        log.warn("failed to notify a hook of its guest's end", { uid, err });
      });
  }

  forget(pod: LauncherPod): void {
    this.onGuestStart(pod);
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
    const key = SHARE_KEYS.namespace(request.pod.namespace);
    for (let attempts = 1; ; attempts += 1) {
      try {
        const answers = await this.#calls.run(key, () => callHooks(request, hooks));
        return { kind: "answered", ...answers };
      } catch (error) {
        const isUnreachable = isAppError(error, "HOOK_UNREACHABLE");
        if (!isUnreachable || attempts === CALL_ATTEMPTS_MAX || signal.aborted)
          return { kind: "failed", error };
      }
      await clock.sleep(HOOK_RETRY_INTERVAL_MS, signal).catch(() => undefined);
    }
  }
}

export function createGuestHooks(options: GuestHooksOptions): GuestHooks {
  return new NodeGuestHooks(options);
}
