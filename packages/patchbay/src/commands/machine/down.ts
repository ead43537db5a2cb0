// SPDX-License-Identifier: Apache-2.0
// patchbay down: stops everything on this machine.
import { resolve } from "node:path";
import type { Command, Context } from "../../command.ts";
import { hasFlag, type Input } from "../../input.ts";
import { printResult } from "../../print/output.ts";

async function run(context: Context, input: Input): Promise<void> {
  const dataDir = resolve(context.global.dataDir);
  const purge = hasFlag(input, "purge");
  const { down: takeDown } = await import("@patchbay/standalone");
  await takeDown({ dataDir, purge });
  await printResult(context, {
    table: () =>
      purge ? `stopped; ${dataDir} is deleted\n` : `stopped; data is kept in ${dataDir}\n`,
    data: { dataDir, purged: purge },
    names: [dataDir],
  });
}

/** On a machine that is down already it has nothing to do, and succeeds. */
export const down: Command = {
  name: "down",
  args: [],
  summary: "Shut down the guests and stop everything on this machine; data is kept",
  flags: [{ flags: "--purge", description: "delete the data directory too" }],
  run,
};
