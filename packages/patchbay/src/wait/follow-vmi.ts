// SPDX-License-Identifier: Apache-2.0
// What happens to one VMI from a moment on? Every version is seen, with its time.
import { VIRTUAL_MACHINE_INSTANCES, type VirtualMachineInstance } from "@patchbay/api";
import { AppError } from "@patchbay/core";
import type { ObjectKey } from "@patchbay/ports";
import type { Session } from "../session.ts";

/** One version of a VMI. */
export interface Sight {
  /** Undefined when there is none. */
  readonly vmi: VirtualMachineInstance | undefined;
  /** Since the start of the following, milliseconds. */
  readonly elapsedMs: number;
}

/** What is waited for. */
export interface Goal {
  /** What a person calls it, for the error. */
  readonly what: string;
  /** Looks at a version; true ends the waiting. */
  readonly visit: (sight: Sight) => boolean;
  /** How it stands, for the error. */
  readonly state: () => string;
  readonly timeoutMs: number;
}

/** Follows one VMI. */
export class VmiFollower {
  readonly #clock: Session["clock"];
  readonly #startMs: number;
  readonly #first = Promise.withResolvers<Sight>();
  readonly #waiting: Sight[] = [];
  readonly #unsubscribe: () => void;
  #visit: ((sight: Sight) => void) | undefined;
  #isListed = false;

  constructor(session: Session, key: ObjectKey) {
    this.#clock = session.clock;
    this.#startMs = session.clock.monotonicMs();
    const source = session.client.reflect(VIRTUAL_MACHINE_INSTANCES, {
      ...(key.namespace !== undefined && { namespace: key.namespace }),
      fieldSelector: `metadata.name=${key.name}`,
    });
    const subscription = source.subscribe((reflection) => {
      if (reflection.kind === "listed") this.#see(reflection.objects[0]);
      else this.#see(reflection.kind === "removed" ? undefined : reflection.object);
    });
    this.#unsubscribe = () => {
      subscription.unsubscribe();
    };
  }

  /** How the VMI is before anything is asked for. */
  first(signal: AbortSignal): Promise<Sight> {
    const aborted = Promise.withResolvers<never>();
    signal.addEventListener("abort", () => {
      aborted.reject(new Error("interrupted", { cause: signal.reason }));
    });
    return Promise.race([this.#first.promise, aborted.promise]);
  }

  /**
   * Resolves when the goal's visit says so; it sees every version after the first one, in order.
   * @throws AppError with KUBE_WAIT_TIMED_OUT
   */
  async until(goal: Goal, signal: AbortSignal): Promise<void> {
    const reached = Promise.withResolvers<undefined>();
    this.#visit = (sight) => {
      if (goal.visit(sight)) reached.resolve(undefined);
    };
    for (const sight of this.#waiting.splice(0)) this.#visit(sight);
    const ended = new AbortController();
    const timer = AbortSignal.any([signal, ended.signal]);
    const late = this.#clock.sleep(goal.timeoutMs, timer).then(() => {
      const { what, timeoutMs, state } = goal;
      throw new AppError("KUBE_WAIT_TIMED_OUT", { what, timeoutMs, state: state() });
    });
    try {
      await Promise.race([reached.promise, late]);
    } finally {
      ended.abort(new Error("the waiting has ended"));
      await late.catch(() => undefined); // lost the race
    }
  }

  close(): void {
    this.#unsubscribe();
  }

  #see(vmi: VirtualMachineInstance | undefined): void {
    const sight = { vmi, elapsedMs: this.#clock.monotonicMs() - this.#startMs };
    if (!this.#isListed) {
      this.#isListed = true;
      this.#first.resolve(sight);
    }
    // The first version is visited too: what is asked for may be so already.
    if (this.#visit === undefined) this.#waiting.push(sight);
    else this.#visit(sight);
  }
}
