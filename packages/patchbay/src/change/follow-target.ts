// SPDX-License-Identifier: Apache-2.0
// What happens to one VM and its VMI from a moment on? Every version is seen, with its time.
import {
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  type KubeObject,
  type ResourceType,
  type VirtualMachine,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { AppError } from "@patchbay/core";
import type { Session } from "../session.ts";
import type { Target } from "../target.ts";

/** How both stand. */
export interface Observation {
  /** Undefined when there is none, or none is followed. */
  readonly vm: VirtualMachine | undefined;
  readonly vmi: VirtualMachineInstance | undefined;
  /** Since the start of the following, milliseconds. */
  readonly elapsedMs: number;
}

/** What is waited for. */
export interface Goal {
  /** What a person calls it, for the error. */
  readonly what: string;
  /** Looks at a version; true ends the waiting. */
  readonly visit: (observation: Observation) => boolean;
  /** How it stands, for the error. */
  readonly state: () => string;
  readonly timeoutMs: number;
}

/** Rejects when the user does not want to wait any longer. */
function interrupted(signal: AbortSignal): Promise<never> {
  const { promise, reject } = Promise.withResolvers<never>();
  const refuse = (): void => {
    reject(new Error("interrupted", { cause: signal.reason }));
  };
  if (signal.aborted) refuse();
  signal.addEventListener("abort", refuse, { once: true });
  return promise;
}

/** Follows one target: a VM with its VMI, or a VMI. */
export class TargetFollower {
  readonly #clock: Session["clock"];
  readonly #startMs: number;
  readonly #first = Promise.withResolvers<Observation>();
  readonly #waiting: Observation[] = [];
  readonly #ends: (() => void)[] = [];
  /** Kinds that have not been listed yet. */
  readonly #unlisted = new Set<string>();
  #vm: VirtualMachine | undefined;
  #vmi: VirtualMachineInstance | undefined;
  #visit: ((observation: Observation) => void) | undefined;

  constructor(session: Session, target: Pick<Target, "kind" | "namespace" | "name">) {
    this.#clock = session.clock;
    this.#startMs = session.clock.monotonicMs();
    if (target.kind === "virtualmachine") {
      this.#follow({ session, target, type: VIRTUAL_MACHINES }, (vm) => (this.#vm = vm));
    }
    this.#follow({ session, target, type: VIRTUAL_MACHINE_INSTANCES }, (vmi) => (this.#vmi = vmi));
  }

  /** How it stands before anything is asked for. */
  first(signal: AbortSignal): Promise<Observation> {
    return Promise.race([this.#first.promise, interrupted(signal)]);
  }

  /**
   * Resolves when the goal's visit says so; it sees every version after the first one, in order.
   * @throws AppError with KUBE_WAIT_TIMED_OUT
   */
  async until(goal: Goal, signal: AbortSignal): Promise<void> {
    const reached = Promise.withResolvers<undefined>();
    this.#visit = (observation) => {
      if (goal.visit(observation)) reached.resolve(undefined);
    };
    for (const observation of this.#waiting.splice(0)) this.#visit(observation);
    const ended = new AbortController();
    const late = this.#clock.sleep(goal.timeoutMs, ended.signal).then(() => {
      const { what, timeoutMs, state } = goal;
      throw new AppError("KUBE_WAIT_TIMED_OUT", { what, timeoutMs, state: state() });
    });
    try {
      await Promise.race([reached.promise, late, interrupted(signal)]);
    } finally {
      ended.abort(new Error("the wait has ended"));
      await late.catch(() => undefined); // lost the race
    }
  }

  close(): void {
    for (const end of this.#ends) end();
  }

  #follow<T extends KubeObject>(
    source: {
      readonly session: Session;
      readonly target: Pick<Target, "namespace" | "name">;
      readonly type: ResourceType<T>;
    },
    keep: (object: T | undefined) => void,
  ): void {
    const { session, target, type } = source;
    this.#unlisted.add(type.kind);
    const { namespace, name } = target;
    const selection = { namespace, fieldSelector: `metadata.name=${name}` };
    const subscription = session.client.reflect(type, selection).subscribe((reflection) => {
      if (reflection.kind === "listed") keep(reflection.objects[0]);
      else keep(reflection.kind === "removed" ? undefined : reflection.object);
      if (reflection.kind === "listed") this.#unlisted.delete(type.kind);
      if (this.#unlisted.size === 0) this.#see();
    });
    this.#ends.push(() => {
      subscription.unsubscribe();
    });
  }

  #see(): void {
    const elapsedMs = this.#clock.monotonicMs() - this.#startMs;
    const observation = { vm: this.#vm, vmi: this.#vmi, elapsedMs };
    this.#first.resolve(observation); // the first one counts
    // The first version is visited too: what is asked for may be so already.
    if (this.#visit === undefined) this.#waiting.push(observation);
    else this.#visit(observation);
  }
}
