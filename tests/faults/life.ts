// SPDX-License-Identifier: Apache-2.0
// A process that dies after one of its actions. Actions are counted at the port, so that new port methods are included.

/** Calls without external changes. Unlisted calls count as actions, because a surplus action does no harm. */
const LOOKS = new Set([
  "find",
  "list",
  "observe",
  "listLinks",
  "readText",
  "exists",
  "space",
  "open",
  "close",
  "now",
  "findDomain",
  "readDomainXml",
  "readGuestInterfaces",
  "readGuestFacts",
  "readGuestSystem",
  "listPods",
  "listBy",
  "synced",
  "onEvent",
  "onWord",
  "onChange",
  "watch",
  "watchLinks",
  "watchDirectory",
  "reflect",
  "monotonicMs",
]);

/** Calls whose result has further external calls: a connection, a server, a relay. */
const MAKERS = new Set(["open", "start", "receive", "send"]);

/** Numbers the actions of all processes of one run; number `deadly` is the last of its process. */
export class Fate {
  /** The deadly action, from 1; 0: none. */
  deadly = 0;
  /** Name of the deadly action; undefined: none. */
  deadlyName: string | undefined;
  /** Names of the actions so far, in order, as `PROCESS CALL`. */
  readonly actions: string[] = [];

  /** Restarts the count. */
  strikeAt(deadly: number): void {
    this.deadly = deadly;
    this.actions.length = 0;
  }

  /** Whether this action kills. */
  note(action: string): boolean {
    this.actions.push(action);
    return this.actions.length === this.deadly || action === this.deadlyName;
  }
}

/** Counts pending calls. */
export class Pending {
  #count = 0;
  #waiting: (() => void)[] = [];

  get isNone(): boolean {
    return this.#count === 0;
  }

  add(): void {
    this.#count += 1;
  }

  take(): void {
    this.#count -= 1;
    if (this.#count > 0) return;
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const resolve of waiting) resolve();
  }

  /** Resolves when there is none, without polling, which would take a core. */
  async none(): Promise<void> {
    if (this.isNone) return;
    await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }
}

/** Open handles until they are closed or their process ends. */
interface Descriptor {
  readonly fd: number;
  readonly close: () => void;
}

function isDescriptor(value: unknown): value is Descriptor {
  return typeof value === "object" && value !== null && "fd" in value && "close" in value;
}

function never<T>(): Promise<T> {
  return new Promise<T>(() => undefined);
}

/** One life of a process, from its start to its death, after which no call reaches the outside. */
export class Life {
  readonly #name: string;
  readonly #fate: Fate;
  readonly #onDeath: () => void;
  readonly #pending = new Pending();
  #isOver = false;
  readonly #descriptors = new Set<Descriptor>();
  readonly #ends: (() => void)[] = [];

  constructor(name: string, fate: Fate, onDeath: () => void) {
    this.#name = name;
    this.#fate = fate;
    this.#onDeath = onDeath;
  }

  /** Pending calls of the process. */
  get pending(): Pending {
    return this.#pending;
  }

  /** A mortal process's view of a port. */
  bind<T extends object>(port: T): T {
    return this.#proxy(port, (name) => !LOOKS.has(name));
  }

  /** A read-only port, whose pending calls are counted too. */
  bindLooks<T extends object>(port: T): T {
    return this.#proxy(port, () => false);
  }

  #proxy<T extends object>(port: T, isAction: (call: string) => boolean): T {
    return new Proxy(port, {
      get: (target, name): unknown => {
        const value: unknown = Reflect.get(target, name, target);
        if (typeof value !== "function") return value;
        // Ports consist of methods whose types are unchanged.
        const method = value.bind(target) as (...args: unknown[]) => unknown;
        return (...args: unknown[]) => {
          const perform = (): unknown => method(...args);
          const result = isAction(String(name))
            ? this.#act(String(name), perform)
            : this.#look(perform);
          return MAKERS.has(String(name)) ? this.#bindMade(result) : result;
        };
      },
    });
  }

  #bindMade(made: unknown): unknown {
    if (made instanceof Promise) return made.then((value) => this.#bindMade(value));
    return typeof made === "object" && made !== null ? this.bind(made) : made;
  }

  #act(name: string, perform: () => unknown): unknown {
    if (this.#isOver) return never();
    const isDeadly = this.#fate.note(`${this.#name} ${name}`);
    const result = perform();
    if (result instanceof Promise) return this.#await(result, isDeadly);
    if (isDeadly) this.#die();
    return result;
  }

  #look(perform: () => unknown): unknown {
    const result = perform();
    if (isDescriptor(result)) {
      this.#descriptors.add(result);
      // The next call before a wait, for example when an event has just killed the process.
      if (this.#isOver) result.close();
    }
    return result instanceof Promise ? this.#await(result, false) : result;
  }

  async #await(result: Promise<unknown>, isDeadly: boolean): Promise<unknown> {
    this.#pending.add();
    try {
      return await result;
    } finally {
      this.#pending.take();
      if (isDeadly) this.#die();
      if (this.#isOver) await never();
    }
  }

  onDeath(end: () => void): void {
    if (this.#isOver) end();
    else this.#ends.push(end);
  }

  /** Ends the process. Ending twice does no harm. */
  end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    for (const end of this.#ends) end();
    // The kernel closes a dead process's handles; closing twice does no harm.
    for (const descriptor of this.#descriptors) descriptor.close();
  }

  #die(): void {
    this.end();
    this.#onDeath();
  }
}
