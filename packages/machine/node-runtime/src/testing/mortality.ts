// SPDX-License-Identifier: Apache-2.0
// A process that dies at one of its effects.

/** What a test sees of it. */
export class Death extends Error {}

/** Counts the effects of the ports that it wraps, and dies at one of them. */
export class Mortality {
  /** So many since it was last told where to die. */
  effects = 0;
  readonly #names: readonly string[];
  #dieAt = Infinity;
  #diesBefore = false;

  /** Names of the methods that change something. */
  constructor(names: readonly string[]) {
    this.#names = names;
  }

  /** `before`: the effect does not come to be. */
  dieAt(effect: number, when: "before" | "after"): void {
    this.effects = 0;
    this.#dieAt = effect;
    this.#diesBefore = when === "before";
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
    const dies = this.effects === this.#dieAt;
    if (dies && this.#diesBefore) throw new Death(name);
    const result = await call();
    if (dies) throw new Death(name);
    return result;
  }
}
