// SPDX-License-Identifier: Apache-2.0
// patchbay restore: replaces the objects of a machine that is down by those of a backup.
import { resolve } from "node:path";
import type { Command, Context } from "../../command.ts";
import { argumentAt, type Input } from "../../input.ts";
import { printResult } from "../../print/output.ts";

async function run(context: Context, input: Input): Promise<void> {
  const standalone = await import("@patchbay/standalone");
  const file = resolve(argumentAt(input, 0));
  const dataDir = resolve(context.global.dataDir);
  const { objects, revision } = await standalone.restore({ dataDir, file });
  await printResult(context, {
    table: () => `${String(objects)} objects restored; revisions go on from ${String(revision)}\n`,
    data: { file, objects, revision },
    names: [],
  });
}

/** Refused while the machine is up. */
export const restore: Command = {
  name: "restore",
  args: ["<file>"],
  values: ["files"],
  summary: "Replace all objects of a stopped machine with those of a backup",
  flags: [],
  run,
};
