// SPDX-License-Identifier: Apache-2.0
// patchbay down: stops everything on this machine.
import { resolve } from "node:path";
import { hasFlag, type Context, type Input } from "../../context.ts";
import { printResult } from "../../print/output.ts";

/** Runs the command. */
export async function run(context: Context, input: Input): Promise<void> {
  const dataDir = resolve(context.global.dataDir);
  const purge = hasFlag(input, "purge");
  const { down } = await import("@patchbay/standalone");
  await down({ dataDir, purge });
  await printResult(context, {
    table: () =>
      purge ? `stopped; ${dataDir} is deleted\n` : `stopped; data is kept in ${dataDir}\n`,
    data: { dataDir, purged: purge },
    names: [dataDir],
  });
}
