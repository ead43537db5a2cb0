// SPDX-License-Identifier: Apache-2.0
// patchbay version: prints the version.
import type { Context } from "../../context.ts";
import { printResult } from "../../print/output.ts";

/** Runs the command. */
export async function run(context: Context): Promise<void> {
  await printResult(context, {
    table: () => `patchbay ${context.version}\n`,
    data: { version: context.version },
    names: [context.version],
  });
}
