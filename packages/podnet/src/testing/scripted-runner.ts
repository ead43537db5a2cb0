// SPDX-License-Identifier: Apache-2.0
// Plays iproute2 for tests: answers as it is told to, and keeps what it was asked to run.
import type { Command, CommandResult, ProcessRunner } from "@patchbay/ports";

/** A program that was run in a namespace: its words, and its standard input where it had one. */
export interface Ran {
  readonly words: string;
  readonly stdin?: string;
}

/** Answers one command; text alone is its output, and it ended well. */
export type Answer = string | Partial<CommandResult>;

/** A runner whose programs are played. */
export interface ScriptedRunner extends ProcessRunner {
  readonly commands: readonly Command[];
  /** What was run inside of the namespace. */
  readonly ran: readonly Ran[];
}

const ENTER = "nsenter --net=/proc/self/fd/3 ";

function ranOf({ argv, stdin }: Command): Ran {
  const words = argv.join(" ").replace(ENTER, "");
  return stdin === undefined || stdin === "" ? { words } : { words, stdin };
}

/** Each command is answered by `play`, which is told what is run. */
export function createScriptedRunner(play: (ran: Ran) => Answer): ScriptedRunner {
  const commands: Command[] = [];
  return {
    commands,
    get ran(): readonly Ran[] {
      return commands.map(ranOf);
    },
    run: (command): Promise<CommandResult> => {
      commands.push(command);
      const answer = play(ranOf(command));
      const result = typeof answer === "string" ? { stdout: answer } : answer;
      return Promise.resolve({ exitCode: 0, stdout: "", stderr: "", ...result });
    },
    endFamily: () => Promise.resolve(),
  };
}
