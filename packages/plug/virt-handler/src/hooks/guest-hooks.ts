// SPDX-License-Identifier: Apache-2.0
// What the hooks of guests have answered, or that they are being asked: no pass of the loop waits for one.
import { isAppError } from "@patchbay/core";
import type { Clock, HookSidecars, LauncherPod, Logger } from "@patchbay/core/ports";
import { askHooks, tellEnd, type Hooked, type HookPlace, type HookRequest } from "./call-hooks.ts";

/** At once on the node; each takes some 60 MiB. */
const SLOTS = 8;
/** Of one namespace, so that hooks that never answer keep nobody else's from being asked. */
const SLOTS_OF_ONE = 2;

interface Waiting {
  readonly namespace: string;
  readonly begin: () => void;
}

/** Work that waits until there is room for it; in its order, but for what its namespace has too much of. */
export class Slots {
  readonly #running: string[] = [];
  readonly #waiting: Waiting[] = [];

  /** Runs the work when there is room. */
  async run<T>(namespace: string, work: () => Promise<T>): Promise<T> {
    const { promise, resolve } = Promise.withResolvers<undefined>();
    const begin = (): void => {
      this.#running.push(namespace);
      resolve(undefined);
    };
    this.#waiting.push({ namespace, begin });
    this.#fill();
    await promise;
    try {
      return await work();
    } finally {
      this.#running.splice(this.#running.indexOf(namespace), 1);
      this.#fill();
    }
  }

  #hasRoom(namespace: string): boolean {
    const own = this.#running.filter((one) => one === namespace).length;
    return this.#running.length < SLOTS && own < SLOTS_OF_ONE;
  }

  #fill(): void {
    for (const waiting of [...this.#waiting]) {
      if (!this.#hasRoom(waiting.namespace)) continue;
      this.#waiting.splice(this.#waiting.indexOf(waiting), 1);
      waiting.begin();
    }
  }
}

/** Between two looks for a sidecar that does not listen yet, milliseconds. Source: KubeVirt pkg/hooks manager.go, 1 s. */
const AGAIN_MS = 500;
/** Looks until it is told that it does not: a minute. */
const LOOKS_MAX = 120;

/** How far the hooks of a guest are with a domain. */
export type HookState =
  | { readonly kind: "asking" }
  | ({ readonly kind: "answered" } & Hooked)
  | { readonly kind: "failed"; readonly error: unknown };

/** The hooks of the guests of this node. */
export interface GuestHooks {
  /** How far they are with this domain; asks them where nobody has. `wake` is called when they have answered, or have not. */
  look(request: HookRequest, wake: () => void): HookState;
  /** The failure was told: the next look asks again. */
  retry(pod: LauncherPod): void;
  /** The guest runs: nobody is asked any more. */
  started(pod: LauncherPod): void;
  /** The guest has ended: its hooks are told, once, as far as they can be reached. */
  ended(place: HookPlace): void;
  /** The pod is gone. */
  forget(pod: LauncherPod): void;
}

/** Of one pod. */
interface Entry {
  /** What they were asked about. */
  readonly domainXml: string | undefined;
  readonly end: AbortController;
  state: HookState;
}

interface GuestHooksOptions {
  readonly hooks: HookSidecars;
  readonly clock: Clock;
  readonly log: Logger;
}

class AskedHooks implements GuestHooks {
  readonly #options: GuestHooksOptions;
  readonly #entries = new Map<string, Entry>();
  /** Pods whose hooks were told of the end. */
  readonly #told = new Set<string>();
  readonly #slots = new Slots();

  constructor(options: GuestHooksOptions) {
    this.#options = options;
  }

  look(request: HookRequest, wake: () => void): HookState {
    const { domainXml, pod } = request;
    const known = this.#entries.get(pod.uid);
    if (known !== undefined && known.domainXml === domainXml) return known.state;
    known?.end.abort();
    const entry: Entry = { domainXml, end: new AbortController(), state: { kind: "asking" } };
    this.#entries.set(pod.uid, entry);
    void this.#ask(request, entry, wake);
    return entry.state;
  }

  retry({ uid }: LauncherPod): void {
    if (this.#entries.get(uid)?.state.kind === "failed") this.#entries.delete(uid);
  }

  started({ uid }: LauncherPod): void {
    this.#entries.get(uid)?.end.abort();
    this.#entries.delete(uid);
  }

  ended(place: HookPlace): void {
    const { uid, namespace } = place.pod;
    if (place.sidecars.length === 0 || this.#told.has(uid)) return;
    this.#told.add(uid);
    const { hooks, log } = this.#options;
    this.#slots
      .run(namespace, () => tellEnd(place, hooks))
      .catch((err: unknown) => {
        log.warn("a hook does not hear that its guest has ended", { uid, err });
      });
  }

  forget(pod: LauncherPod): void {
    this.started(pod);
    this.#told.delete(pod.uid);
  }

  async #ask(request: HookRequest, entry: Entry, wake: () => void): Promise<void> {
    const { clock, log } = this.#options;
    const begunMs = clock.monotonicMs();
    const state = await this.#answer(request, entry.end.signal);
    if (entry.end.signal.aborted) return;
    entry.state = state;
    const durationMs = Math.round(clock.monotonicMs() - begunMs);
    const { uid } = request.pod;
    if (state.kind === "answered") log.info("asked the guest's hooks", { uid, durationMs });
    wake();
  }

  async #answer(request: HookRequest, signal: AbortSignal): Promise<HookState> {
    const { clock, hooks } = this.#options;
    const { namespace } = request.pod;
    for (let looks = 1; ; looks += 1) {
      try {
        const hooked = await this.#slots.run(namespace, () => askHooks(request, hooks));
        return { kind: "answered", ...hooked };
      } catch (error) {
        const isAway = isAppError(error, "HOOK_UNREACHABLE");
        if (!isAway || looks === LOOKS_MAX || signal.aborted) return { kind: "failed", error };
      }
      await clock.sleep(AGAIN_MS, signal).catch(() => undefined); // aborted: nobody wants the answer
    }
  }
}

/** Hooks, none of which was asked yet. */
export function createGuestHooks(options: GuestHooksOptions): GuestHooks {
  return new AskedHooks(options);
}
