// SPDX-License-Identifier: Apache-2.0
// patchbay uninstall: takes everything of Patchbay off a cluster.
import type { Removal } from "@patchbay/manifests";
import type { Command, Context } from "../../command.ts";
import { hasFlag, type Input } from "../../input.ts";
import { printResult } from "../../print/output.ts";
import { untilObject } from "./until-object.ts";

function printRemoval({ name, kept, isRemovable = false }: Removal): string {
  if (kept === undefined) return `${name}: deleted\n`;
  const nextStep = isRemovable ? "; --with-objects deletes them too" : "";
  return `${name}: kept, ${kept}${nextStep}\n`;
}

async function run(context: Context, input: Input): Promise<void> {
  const { uninstall: uninstallFrom } = await import("@patchbay/manifests");
  const { withSession } = await import("../../session.ts");
  const removals: Removal[] = [];
  await withSession(context, (session) =>
    uninstallFrom(session.client.store, {
      withObjects: hasFlag(input, "withObjects"),
      tell: (removal) => {
        removals.push(removal);
      },
      untilGone: (type, key) =>
        untilObject(session, context, { type, key, isThere: (object) => object === undefined }),
    }),
  );
  await printResult(context, {
    table: () => removals.map(printRemoval).join(""),
    data: { objects: removals },
    names: removals.map(({ name }) => name),
  });
}

/** A cluster that has nothing of it is one where there is nothing to do. */
export const uninstall: Command = {
  name: "uninstall",
  args: [],
  summary: "Remove Patchbay from a cluster; refused while virtual machines exist",
  flags: [
    {
      flags: "--with-objects",
      description:
        "delete kinds of which objects still exist, and those objects too; networks always stay",
    },
  ],
  run,
};
