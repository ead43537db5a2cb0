// SPDX-License-Identifier: Apache-2.0
// patchbay version: prints the version.
import type { Command, Context } from "../../command.ts";
import { printResult } from "../../print/output.ts";

async function run(context: Context): Promise<void> {
  await printResult(context, {
    table: () => `patchbay ${context.version}\n`,
    data: { version: context.version },
    names: [context.version],
  });
}

/** Asks no API server. */
export const version: Command = {
  name: "version",
  args: [],
  summary: "Print the version",
  flags: [],
  run,
};
