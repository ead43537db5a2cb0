// SPDX-License-Identifier: Apache-2.0
// patchbay get interfaces: lists the interfaces of a VM.
import { argumentAt, hasFlag, type Context, type Input } from "../../context.ts";
import { toIfaceRows } from "../../print/iface-rows.ts";
import { printInterfaces } from "../../print/interfaces.ts";
import { printResult } from "../../print/output.ts";
import { withSession } from "../../session.ts";
import { findTarget } from "../../target.ts";

/** Runs the command. */
export async function run(context: Context, input: Input): Promise<void> {
  await withSession(context, async (session) => {
    const query = { name: argumentAt(input, 0), isVmi: hasFlag(input, "vmi") };
    const target = await findTarget(session, query, context);
    const rows = toIfaceRows(target);
    await printResult(context, {
      table: () => printInterfaces(rows, target.vmi),
      data: rows,
      names: rows.map(({ name }) => `interface/${name}`),
    });
  });
}
