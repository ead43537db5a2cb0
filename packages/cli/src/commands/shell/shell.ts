// SPDX-License-Identifier: Apache-2.0
// patchbay completion, complete and version.
import { InvalidArgumentError } from "commander";
import type { Command, Context } from "../../command.ts";
import { argumentAt, type Input } from "../../input.ts";
import { printBashCompletion, printZshCompletion } from "./completion-script.ts";
import { escapeLine } from "../../print/safe.ts";
import { printResult } from "../../print/output.ts";

function runCompletion({ out, err, commandLine }: Context, input: Input): Promise<void> {
  const shell = argumentAt(input, 0);
  if (shell === "bash") out.write(printBashCompletion(commandLine));
  else if (shell === "zsh") out.write(printZshCompletion(commandLine));
  else {
    err.write(`error: there is no completion for ${shell}; use bash or zsh\n`);
    return Promise.reject(new InvalidArgumentError("unknown shell"));
  }
  return Promise.resolve();
}

export const completion: Command = {
  name: "completion",
  args: ["<shell>"],
  values: ["shells"],
  summary: "Print a completion script for bash or zsh",
  flags: [],
  run: runCompletion,
};

export const complete: Command = {
  name: "complete",
  args: ["<what>", "[vm]"],
  isHidden: true,
  summary: "Print names for completion",
  flags: [],
  run: async (context, input) => {
    const { listNames } = await import("./offered-names.ts");
    for (const name of await listNames(context, input)) context.out.write(`${escapeLine(name)}\n`);
  },
};

async function runVersion(context: Context): Promise<void> {
  await printResult(context, {
    table: () => `patchbay ${context.version}\n`,
    data: { version: context.version },
    names: [context.version],
  });
}

export const version: Command = {
  name: "version",
  args: [],
  summary: "Print the version",
  flags: [],
  run: runVersion,
};
