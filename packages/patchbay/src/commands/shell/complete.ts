// SPDX-License-Identifier: Apache-2.0
// patchbay complete: prints names for the completion of a shell, one on each line.
import type { Command } from "../../command.ts";
import { oneLine } from "../../print/safe.ts";

/** Asked by the scripts that `patchbay completion` prints. */
export const complete: Command = {
  name: "complete",
  args: ["<what>", "[vm]"],
  isHidden: true,
  summary: "Print names for completion",
  flags: [],
  run: async (context, input) => {
    const { listNames } = await import("./offered-names.ts");
    for (const name of await listNames(context, input)) context.out.write(`${oneLine(name)}\n`);
  },
};
