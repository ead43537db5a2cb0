// SPDX-License-Identifier: Apache-2.0
// What may run beside what? Many at a gate at once, or one alone.

interface Gate {
  /** How many have passed it and are not done. */
  inside: number;
  isClosed: boolean;
  /** Who waits for a change of it. */
  waiting: (() => void)[];
}

/** Gates by name; one that nobody uses is forgotten. */
export class Gates {
  readonly #gates = new Map<string, Gate>();

  /** Runs the work beside others, but beside none that is alone. */
  async together<T>(name: string, work: () => Promise<T>): Promise<T> {
    const gate = this.#gateOf(name);
    while (gate.isClosed) await changeOf(gate);
    gate.inside += 1;
    try {
      return await work();
    } finally {
      gate.inside -= 1;
      this.#tell(name, gate);
    }
  }

  /** Runs the work once all that are inside are done; whoever comes meanwhile waits. */
  async alone<T>(name: string, work: () => Promise<T>): Promise<T> {
    const gate = this.#gateOf(name);
    while (gate.isClosed) await changeOf(gate);
    gate.isClosed = true;
    try {
      while (gate.inside > 0) await changeOf(gate);
      return await work();
    } finally {
      gate.isClosed = false;
      this.#tell(name, gate);
    }
  }

  #gateOf(name: string): Gate {
    const gate = this.#gates.get(name) ?? { inside: 0, isClosed: false, waiting: [] };
    this.#gates.set(name, gate);
    return gate;
  }

  #tell(name: string, gate: Gate): void {
    const waiting = gate.waiting.splice(0);
    if (waiting.length === 0 && gate.inside === 0 && !gate.isClosed) this.#gates.delete(name);
    for (const wake of waiting) wake();
  }
}

function changeOf(gate: Gate): Promise<void> {
  return new Promise((resolve) => {
    gate.waiting.push(resolve);
  });
}
