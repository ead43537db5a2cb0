// SPDX-License-Identifier: Apache-2.0
// patchbay completion: prints a completion script.
import { InvalidArgumentError } from "commander";
import type { Command, Context } from "../../command.ts";
import { argumentAt, type Input } from "../../input.ts";
import { printBashCompletion, printZshCompletion } from "./completion-script.ts";

function run({ out, err, commandLine }: Context, input: Input): Promise<void> {
  const shell = argumentAt(input, 0);
  if (shell === "bash") out.write(printBashCompletion(commandLine));
  else if (shell === "zsh") out.write(printZshCompletion(commandLine));
  else {
    err.write(`error: there is no completion for ${shell}; use bash or zsh\n`);
    return Promise.reject(new InvalidArgumentError("unknown shell"));
  }
  return Promise.resolve();
}

/** For a shell's startup file. */
export const completion: Command = {
  name: "completion",
  args: ["<shell>"],
  values: ["shells"],
  summary: "Print a completion script for bash or zsh",
  flags: [],
  run,
};
