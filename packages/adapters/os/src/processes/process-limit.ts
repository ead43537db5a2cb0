// SPDX-License-Identifier: Apache-2.0
// How many programs run at once? What waits for others is not limited, what costs the machine is.
import type { Command, CommandResult, ProcessRunner } from "@patchbay/core/ports";

/** Places, given in the order in which they are asked for. */
class Places {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(count: number) {
    this.#free = count;
  }

  async take(): Promise<void> {
    if (this.#free > 0) {
      this.#free -= 1;
      return;
    }
    const { promise, resolve } = Promise.withResolvers<undefined>();
    this.#waiting.push(() => {
      resolve(undefined);
    });
    await promise;
  }

  give(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#free += 1;
    else next();
  }
}

/** The same runner with at most `count` programs at once; one whose output is followed lives for long and is not counted. */
export function limitProcesses(runner: ProcessRunner, count: number): ProcessRunner {
  const places = new Places(count);
  const run = async (command: Command): Promise<CommandResult> => {
    if (command.onOutput !== undefined || command.onBytes !== undefined) return runner.run(command);
    await places.take();
    try {
      return await runner.run(command);
    } finally {
      places.give();
    }
  };
  return { run, endFamily: (family) => runner.endFamily(family) };
}
