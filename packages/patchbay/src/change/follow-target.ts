// SPDX-License-Identifier: Apache-2.0
// What happens to one VM, its VMI and its migrations from a moment on? Every version is seen, with its time.
import {
  VIRTUAL_MACHINE_INSTANCE_MIGRATIONS,
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  type KubeObject,
  type ResourceType,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VirtualMachineInstanceMigration,
} from "@patchbay/api";
import { AppError } from "@patchbay/core";
import type { Reflection } from "@patchbay/kube";
import type { Session } from "../session.ts";
import type { Target } from "../target.ts";

/** How they stand. */
export interface Observation {
  /** Undefined when there is none, or none is followed. */
  readonly vm: VirtualMachine | undefined;
  readonly vmi: VirtualMachineInstance | undefined;
  /** Those of the VMI, in the order in which they were seen; none unless they are followed. */
  readonly migrations?: readonly VirtualMachineInstanceMigration[];
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

/** The object of a selection that names one; undefined when it is gone. */
function onlyOne<T extends KubeObject>(reflection: Reflection<T>): T | undefined {
  if (reflection.kind === "listed") return reflection.objects[0];
  return reflection.kind === "removed" ? undefined : reflection.object;
}

/** Which objects, and who reads them. */
interface Selected {
  readonly session: Session;
  readonly namespace: string;
  readonly fieldSelector?: string;
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

/** Who is followed. */
export interface Followed {
  readonly target: Pick<Target, "kind" | "namespace" | "name">;
  /** Its migrations as well. */
  readonly hasMigrations?: boolean;
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
  readonly #migrations = new Map<string, VirtualMachineInstanceMigration>();
  #vm: VirtualMachine | undefined;
  #vmi: VirtualMachineInstance | undefined;
  #visit: ((observation: Observation) => void) | undefined;

  constructor(session: Session, { target, hasMigrations = false }: Followed) {
    this.#clock = session.clock;
    this.#startMs = session.clock.monotonicMs();
    const { namespace, name } = target;
    const one = { session, namespace, fieldSelector: `metadata.name=${name}` };
    if (target.kind === "virtualmachine") {
      this.#follow(VIRTUAL_MACHINES, one, (reflection) => (this.#vm = onlyOne(reflection)));
    }
    this.#follow(VIRTUAL_MACHINE_INSTANCES, one, (reflection) => (this.#vmi = onlyOne(reflection)));
    if (!hasMigrations) return;
    // A label tells whose they are only some time after they have been made.
    const all = { session, namespace };
    this.#follow(VIRTUAL_MACHINE_INSTANCE_MIGRATIONS, all, (reflection) => {
      this.#keepMigrations(name, reflection);
    });
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

  #keepMigrations(name: string, reflection: Reflection<VirtualMachineInstanceMigration>): void {
    if (reflection.kind === "listed") this.#migrations.clear();
    const seen = reflection.kind === "listed" ? reflection.objects : [reflection.object];
    for (const migration of seen.filter(({ spec }) => spec.vmiName === name)) {
      const { uid = "" } = migration.metadata;
      if (reflection.kind === "removed") this.#migrations.delete(uid);
      else this.#migrations.set(uid, migration);
    }
  }

  #follow<T extends KubeObject>(
    type: ResourceType<T>,
    { session, ...selection }: Selected,
    keep: (reflection: Reflection<T>) => void,
  ): void {
    const { kind } = type;
    this.#unlisted.add(kind);
    const subscription = session.client.reflect(type, selection).subscribe((reflection) => {
      keep(reflection);
      if (reflection.kind === "listed") this.#unlisted.delete(kind);
      if (this.#unlisted.size === 0) this.#see();
    });
    this.#ends.push(() => {
      subscription.unsubscribe();
    });
  }

  #see(): void {
    const elapsedMs = this.#clock.monotonicMs() - this.#startMs;
    const migrations = [...this.#migrations.values()];
    const observation = { vm: this.#vm, vmi: this.#vmi, migrations, elapsedMs };
    this.#first.resolve(observation); // the first one counts
    // The first version is visited too: what is asked for may be so already.
    if (this.#visit === undefined) this.#waiting.push(observation);
    else this.#visit(observation);
  }
}
