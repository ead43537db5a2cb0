// SPDX-License-Identifier: Apache-2.0
// When does a process die, counted in its calls to the outside?

/** The agent's process: it dies before the call whose number is given, and does nothing afterwards. */
export class Life {
  #calls = 0;
  readonly #dieAt: number;
  constructor(dieAt: number) {
    this.#dieAt = dieAt;
  }
  get isOver(): boolean {
    return this.#calls >= this.#dieAt;
  }
  async call<T>(perform: () => Promise<T>): Promise<T> {
    if (this.isOver) throw new Error("the process is dead");
    this.#calls += 1;
    if (this.#calls >= this.#dieAt) throw new Error("the process dies here");
    return perform();
  }
}
