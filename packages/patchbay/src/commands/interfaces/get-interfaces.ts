// SPDX-License-Identifier: Apache-2.0
// patchbay get interfaces: lists the interfaces of a VM, or of all VMs of a namespace.
import type { Command, Context } from "../../command.ts";
import { argumentAt, type Input } from "../../input.ts";
import { printResult } from "../../print/output.ts";
import { VMI } from "../flags.ts";

async function listOne(context: Context, input: Input): Promise<void> {
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

async function listAll(context: Context): Promise<void> {
  const { withSession } = await import("../../session.ts");
  const { interfacesOfAll } = await import("./interfaces-of-all.ts");
  const { printInterfacesOfAll } = await import("../../print/interfaces.ts");
  await withSession(context, async (session) => {
    const vms = await interfacesOfAll(session, context.signal);
    await printResult(context, {
      table: () => printInterfacesOfAll(vms),
      data: vms.map(({ vm, rows }) => ({ vm, interfaces: rows })),
      names: vms.flatMap(({ vm, rows }) => rows.map(({ name }) => `interface/${vm}/${name}`)),
    });
  });
}

async function run(context: Context, input: Input): Promise<void> {
  await (argumentAt(input, 0) === "" ? listAll(context) : listOne(context, input));
}

/** Also those that are declared and not there yet, and those that are on their way out. */
export const getInterfaces: Command = {
  name: "get interfaces",
  aliases: ["interface", "ifaces"],
  args: ["[vm]"],
  values: ["vms"],
  summary:
    "List the network interfaces of a VM with their phases, or those of all VMs of the namespace",
  flags: [VMI],
  run,
};
