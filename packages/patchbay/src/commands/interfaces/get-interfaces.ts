// SPDX-License-Identifier: Apache-2.0
// patchbay get interfaces: lists the interfaces of a VM.
import type { Command, Context } from "../../command.ts";
import type { Input } from "../../input.ts";
import { printResult } from "../../print/output.ts";
import { VMI } from "../flags.ts";

async function run(context: Context, input: Input): Promise<void> {
  const { withTarget } = await import("../../target.ts");
  const { toIfaceRows } = await import("../../print/iface-rows.ts");
  const { printInterfaces } = await import("../../print/interfaces.ts");
  await withTarget(context, input, async (target) => {
    const rows = toIfaceRows(target);
    await printResult(context, {
      table: () => printInterfaces(rows, target.vmi),
      data: rows,
      names: rows.map(({ name }) => `interface/${name}`),
    });
  });
}

/** Also those that are declared and not there yet, and those that are on their way out. */
export const getInterfaces: Command = {
  name: "get interfaces",
  aliases: ["interface", "ifaces"],
  args: ["<vm>"],
  values: ["vms"],
  summary: "List the network interfaces of a VM with their phases",
  flags: [VMI],
  run,
};
