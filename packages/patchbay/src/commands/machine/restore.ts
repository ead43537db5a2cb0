// SPDX-License-Identifier: Apache-2.0
// patchbay restore: replaces the objects of a machine that is down by those of a backup.
import { resolve } from "node:path";
import { argumentAt, type Context, type Input } from "../../context.ts";
import { printResult } from "../../print/output.ts";

/** Runs the command. */
export async function run(context: Context, input: Input): Promise<void> {
  const { restore } = await import("@patchbay/standalone");
  const file = resolve(argumentAt(input, 0));
  const { objects, revision } = await restore({ dataDir: resolve(context.global.dataDir), file });
  await printResult(context, {
    table: () => `${String(objects)} objects restored; revisions go on from ${String(revision)}\n`,
    data: { file, objects, revision },
    names: [],
  });
}
