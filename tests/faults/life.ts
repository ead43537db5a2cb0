// SPDX-License-Identifier: Apache-2.0
// A process that dies after one of its actions. Actions are counted where they leave the process, not listed: whatever a
// port learns to do is counted by itself.

/** Calls that change nothing outside. What is not named here counts as an action: one too many does no harm. */
const LOOKS = new Set([
  ...["find", "list", "look", "listLinks", "readText", "exists", "space", "open", "close", "now"],
  ...["findDomain", "readDomainXml", "readGuestInterfaces", "listPods", "listBy", "synced"],
  ...["onEvent", "onChange", "watch", "watchLinks", "watchDirectory", "reflect", "monotonicMs"],
]);

/** Numbers the actions of all processes of one run; the one of number `deadly` is the last of its process. */
export class Fate {
  /** Which action kills: from 1; 0: none. */
  deadly = 0;
  /** Names of the actions so far, in order, as `PROCESS CALL`. */
  readonly actions: string[] = [];

  /** Begins to count anew. */
  strikeAt(deadly: number): void {
    this.deadly = deadly;
    this.actions.length = 0;
  }

  /** Whether this action kills. */
  note(action: string): boolean {
    this.actions.push(action);
    return this.actions.length === this.deadly;
  }
}

function never<T>(): Promise<T> {
  return new Promise<T>(() => undefined);
}

/** One life of a process: from its start to its death, after which nothing of it reaches the outside. */
export class Life {
  readonly #name: string;
  readonly #fate: Fate;
  readonly #onDeath: () => void;
  /** Calls that have left the process and have not come back. */
  #pending = 0;
  #isOver = false;

  constructor(name: string, fate: Fate, onDeath: () => void) {
    this.#name = name;
    this.#fate = fate;
    this.#onDeath = onDeath;
  }

  get isIdle(): boolean {
    return this.#pending === 0;
  }

  /** The same port for a process that may die. */
  bind<T extends object>(port: T): T {
    return new Proxy(port, {
      get: (target, name): unknown => {
        const value: unknown = Reflect.get(target, name, target);
        if (typeof value !== "function") return value;
        // Ports have methods only, which take and give what the port says.
        const method = value.bind(target) as (...args: unknown[]) => unknown;
        return (...args: unknown[]) => this.#call(String(name), () => method(...args));
      },
    });
  }

  #call(name: string, perform: () => unknown): unknown {
    const isAction = !LOOKS.has(name);
    if (this.#isOver && isAction) return never();
    const isDeadly = isAction && this.#fate.note(`${this.#name} ${name}`);
    const result = perform();
    if (!(result instanceof Promise)) {
      if (isDeadly) this.#die();
      return result;
    }
    return this.#await(result, isDeadly);
  }

  async #await(result: Promise<unknown>, isDeadly: boolean): Promise<unknown> {
    this.#pending += 1;
    try {
      return await result;
    } finally {
      this.#pending -= 1;
      if (isDeadly) this.#die();
      if (this.#isOver) await never();
    }
  }

  #die(): void {
    this.#isOver = true;
    this.#onDeath();
  }
}
