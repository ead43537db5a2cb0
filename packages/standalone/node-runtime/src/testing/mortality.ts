// SPDX-License-Identifier: Apache-2.0
// Simulates a process that crashes at one of its effects.

export class Crash extends Error {}

/** Counts the effects of the wrapped ports, and throws at one of them. */
export class CrashInjector {
  /** Number of effects since the last call of `crashAt`. */
  effects = 0;
  readonly #names: readonly string[];
  #crashAt = Infinity;
  #crashesBefore = false;

  /** `names` are the methods with effects. */
  constructor(names: readonly string[]) {
    this.#names = names;
  }

  /** Crashes at the effect with this number, counted from 1. With `before` the effect does not happen. */
  crashAt(effect: number, when: "before" | "after"): void {
    this.effects = 0;
    this.#crashAt = effect;
    this.#crashesBefore = when === "before";
  }

  wrap<T extends object>(port: T): T {
    return new Proxy(port, {
      get: (target, name) => {
        const member: unknown = Reflect.get(target, name);
        if (typeof member !== "function") return member;
        return (...args: unknown[]) =>
          this.#act(String(name), () => Reflect.apply(member, target, args) as unknown);
      },
    });
  }

  async #act(name: string, call: () => unknown): Promise<unknown> {
    if (!this.#names.includes(name)) return call();
    this.effects += 1;
    const crashes = this.effects === this.#crashAt;
    if (crashes && this.#crashesBefore) throw new Crash(name);
    const result = await call();
    if (crashes) throw new Crash(name);
    return result;
  }
}
