// SPDX-License-Identifier: Apache-2.0
// Watches of one VM, its VMI and its migrations, which report each version with its time.
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
import { AppError } from "@patchbay/base";
import type { Reflection } from "@patchbay/kube";
import type { Session } from "../session.ts";
import type { Target } from "../target.ts";

export interface Observation {
  /** Undefined if it does not exist or is not watched. */
  readonly vm: VirtualMachine | undefined;
  readonly vmi: VirtualMachineInstance | undefined;
  /** Migrations of the VMI, in the order in which they were observed. Unset unless they are watched. */
  readonly migrations?: readonly VirtualMachineInstanceMigration[];
  /** Milliseconds since the watches started. */
  readonly elapsedMs: number;
}

export interface Goal {
  /** Description of the goal for the error message. */
  readonly what: string;
  /** Called with each version; true ends the wait. */
  readonly visit: (observation: Observation) => boolean;
  /** Returns the current state for the error message. */
  readonly state: () => string;
  readonly timeoutMs: number;
}

/** The object of a watch that selects one name; undefined if it is deleted. */
function findSingle<T extends KubeObject>(reflection: Reflection<T>): T | undefined {
  if (reflection.kind === "listed") return reflection.objects[0];
  return reflection.kind === "removed" ? undefined : reflection.object;
}

interface WatchSelection {
  readonly session: Session;
  readonly namespace: string;
  readonly fieldSelector?: string;
}

function rejectOnAbort(signal: AbortSignal): Promise<never> {
  const { promise, reject } = Promise.withResolvers<never>();
  const rejectInterrupted = (): void => {
    reject(new Error("interrupted", { cause: signal.reason }));
  };
  if (signal.aborted) rejectInterrupted();
  signal.addEventListener("abort", rejectInterrupted, { once: true });
  return promise;
}

export interface FollowedTarget {
  readonly target: Pick<Target, "kind" | "namespace" | "name">;
  readonly hasMigrations?: boolean;
}

export class TargetFollower {
  readonly #clock: Session["clock"];
  readonly #startMs: number;
  readonly #first = Promise.withResolvers<Observation>();
  readonly #pending: Observation[] = [];
  readonly #ends: (() => void)[] = [];
  /** Kinds that have not been listed yet. */
  readonly #unlisted = new Set<string>();
  readonly #migrations = new Map<string, VirtualMachineInstanceMigration>();
  #vm: VirtualMachine | undefined;
  #vmi: VirtualMachineInstance | undefined;
  #visit: ((observation: Observation) => void) | undefined;

  constructor(session: Session, { target, hasMigrations = false }: FollowedTarget) {
    this.#clock = session.clock;
    this.#startMs = session.clock.monotonicMs();
    const { namespace, name } = target;
    const one = { session, namespace, fieldSelector: `metadata.name=${name}` };
    if (target.kind === "virtualmachine") {
      this.#follow(VIRTUAL_MACHINES, one, (reflection) => (this.#vm = findSingle(reflection)));
    }
    this.#follow(
      VIRTUAL_MACHINE_INSTANCES,
      one,
      (reflection) => (this.#vmi = findSingle(reflection)),
    );
    if (!hasMigrations) return;
    // The controller labels a migration with its VMI some time after the migration is created, so all are watched.
    const all = { session, namespace };
    this.#follow(VIRTUAL_MACHINE_INSTANCE_MIGRATIONS, all, (reflection) => {
      this.#storeMigrations(name, reflection);
    });
  }

  /** The state before the request is sent. */
  first(signal: AbortSignal): Promise<Observation> {
    return Promise.race([this.#first.promise, rejectOnAbort(signal)]);
  }

  /** Calls the goal's `visit` with every version in order, and resolves when it returns true. @throws AppError with KUBE_WAIT_TIMED_OUT */
  async until(goal: Goal, signal: AbortSignal): Promise<void> {
    const reached = Promise.withResolvers<undefined>();
    this.#visit = (observation) => {
      if (goal.visit(observation)) reached.resolve(undefined);
    };
    for (const observation of this.#pending.splice(0)) this.#visit(observation);
    const ended = new AbortController();
    const timeout = this.#clock.sleep(goal.timeoutMs, ended.signal).then(() => {
      const { what, timeoutMs, state } = goal;
      throw new AppError("KUBE_WAIT_TIMED_OUT", { what, timeoutMs, state: state() });
    });
    try {
      await Promise.race([reached.promise, timeout, rejectOnAbort(signal)]);
    } finally {
      ended.abort(new Error("the wait has ended"));
      await timeout.catch(() => undefined); // the aborted sleep rejects
    }
  }

  close(): void {
    for (const end of this.#ends) end();
  }

  #storeMigrations(name: string, reflection: Reflection<VirtualMachineInstanceMigration>): void {
    if (reflection.kind === "listed") this.#migrations.clear();
    const received = reflection.kind === "listed" ? reflection.objects : [reflection.object];
    for (const migration of received.filter(({ spec }) => spec.vmiName === name)) {
      const { uid = "" } = migration.metadata;
      if (reflection.kind === "removed") this.#migrations.delete(uid);
      else this.#migrations.set(uid, migration);
    }
  }

  #follow<T extends KubeObject>(
    type: ResourceType<T>,
    { session, ...selection }: WatchSelection,
    store: (reflection: Reflection<T>) => void,
  ): void {
    const { kind } = type;
    this.#unlisted.add(kind);
    const subscription = session.client.reflect(type, selection).subscribe((reflection) => {
      store(reflection);
      if (reflection.kind === "listed") this.#unlisted.delete(kind);
      if (this.#unlisted.size === 0) this.#observe();
    });
    this.#ends.push(() => {
      subscription.unsubscribe();
    });
  }

  #observe(): void {
    const elapsedMs = this.#clock.monotonicMs() - this.#startMs;
    const migrations = [...this.#migrations.values()];
    const observation = { vm: this.#vm, vmi: this.#vmi, migrations, elapsedMs };
    this.#first.resolve(observation); // later calls have no effect
    // The first version is visited too, because the requested state may already be reached.
    if (this.#visit === undefined) this.#pending.push(observation);
    else this.#visit(observation);
  }
}
