// SPDX-License-Identifier: Apache-2.0
// An agent that dies after some of its commands.
import { createProcessRunner } from "@patchbay/os";
import type { Command, CommandResult, ProcessRunner } from "@patchbay/ports";

/** A runner with which a process dies after so many commands of its batches. */
export class DyingRunner implements ProcessRunner {
  readonly #runner = createProcessRunner();
  #left: number;

  constructor(commands: number) {
    this.#left = commands;
  }

  async run(command: Command): Promise<CommandResult> {
    const given = (command.stdin ?? "").split("\n").filter((line) => line !== "");
    // The kernel takes all that nft was given, or nothing.
    const lines = command.argv.includes("nft") ? [given.join("\n")] : given;
    if (lines.length === 0) return this.#runner.run(command);
    const done = lines.slice(0, this.#left);
    this.#left -= done.length;
    const result =
      done.length === 0
        ? undefined
        : await this.#runner.run({ ...command, stdin: `${done.join("\n")}\n` });
    if (result !== undefined && done.length === lines.length) return result;
    throw new Error("the process has died");
  }

  endFamily(): Promise<void> {
    return Promise.resolve();
  }
}
