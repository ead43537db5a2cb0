// SPDX-License-Identifier: Apache-2.0
// patchbay history: shows what was done with the interfaces of a VM.
import type { IfaceHistory } from "@patchbay/api";
import type { Command, Context } from "../../command.ts";
import { argumentAt, type Input } from "../../input.ts";
import { printResult } from "../../print/output.ts";
import type { Target } from "../../target.ts";
import { VMI } from "../flags.ts";

/** Of one interface, or of all where none is named. */
async function ofInterface(
  history: IfaceHistory,
  target: Target,
  iface: string,
): Promise<IfaceHistory> {
  if (iface === "") return history;
  const { toIfaceRows } = await import("../../print/iface-rows.ts");
  const own = history.filter(({ name }) => name === iface);
  const isKnown = toIfaceRows(target).some(({ name }) => name === iface);
  if (own.length > 0 || isKnown) return own;
  const { AppError } = await import("@patchbay/core/errors");
  const { kind, namespace, name } = target;
  const object = `${iface} of ${kind} ${namespace}/${name}`;
  throw new AppError("KUBE_NOT_FOUND", { resource: "interface", object });
}

async function run(context: Context, input: Input): Promise<void> {
  const { withTarget } = await import("../../target.ts");
  const { historyOfVm } = await import("@patchbay/core/history");
  const { printHistory } = await import("../../print/history.ts");
  await withTarget(context, input, async (target) => {
    const history = await ofInterface(historyOfVm(target), target, argumentAt(input, 1));
    await printResult(context, {
      table: () => printHistory(history),
      data: history,
      names: history.map(({ name }) => `interface/${name}`),
    });
  });
}

/** Also of interfaces that are gone, and of guests that have ended. */
export const history: Command = {
  name: "history",
  args: ["<vm>", "[interface]"],
  values: ["vms", "interfaces"],
  summary: "Show the last plugs, unplugs and changes of a VM's interfaces, and how long each took",
  flags: [VMI],
  run,
};
