// SPDX-License-Identifier: Apache-2.0
// patchbay completion: prints a completion script.
import { InvalidArgumentError } from "commander";
import { argumentAt, type Context, type Input } from "../../context.ts";
import { printBashCompletion, printZshCompletion } from "./completion-script.ts";

/** Runs the command. */
export function run(context: Context, input: Input): Promise<void> {
  const shell = argumentAt(input, 0);
  if (shell === "bash") context.out.write(printBashCompletion());
  else if (shell === "zsh") context.out.write(printZshCompletion());
  else {
    context.err.write(`error: there is no completion for ${shell}; there is for bash and zsh\n`);
    return Promise.reject(new InvalidArgumentError("unknown shell"));
  }
  return Promise.resolve();
}
