// SPDX-License-Identifier: Apache-2.0
// patchbay explain: shows what is known of one interface and what happens next.
import type { VmiStatus } from "@patchbay/api";
import type { Command, Context } from "../../command.ts";
import { argumentAt, type Input } from "../../input.ts";
import { printResult } from "../../print/output.ts";
import type { Target } from "../../target.ts";
import { VMI } from "../flags.ts";

/** Where the VM runs, and why it cannot be worked with there. */
function toldOfNode({ nodeName, hindrance }: VmiStatus = {}): {
  readonly node?: string;
  readonly hindrance?: string;
} {
  return {
    ...(nodeName !== undefined && { node: nodeName }),
    ...(hindrance !== undefined && { hindrance: hindrance.reason }),
  };
}

async function explainIn(context: Context, target: Target, iface: string): Promise<void> {
  const { AppError } = await import("@patchbay/core/errors");
  const { isLive, toIfaceRows } = await import("../../print/iface-rows.ts");
  const { printExplanation } = await import("../../print/explanation.ts");
  const { startTrouble, vmTrouble } = await import("../../change/verdict.ts");
  const { kind, namespace, name, vmi } = target;
  const title = `${kind} ${namespace}/${name}`;
  const row = toIfaceRows(target).find((one) => one.name === iface);
  if (row === undefined) {
    throw new AppError("KUBE_NOT_FOUND", {
      resource: "interface",
      object: `${iface} of ${title}`,
    });
  }
  const trouble = vmTrouble(target.vm) ?? startTrouble(vmi);
  const explained = {
    title,
    isRunning: isLive(vmi),
    ...toldOfNode(vmi?.status),
    ...(trouble !== undefined && { trouble }),
  };
  await printResult(context, {
    table: () => printExplanation(row, explained),
    data: { kind, namespace, vm: name, ...row, ...(trouble !== undefined && { trouble }) },
    names: [`interface/${iface}`],
  });
}

async function run(context: Context, input: Input): Promise<void> {
  const { withTarget } = await import("../../target.ts");
  await withTarget(context, input, (target) => explainIn(context, target, argumentAt(input, 1)));
}

/** Says why an interface goes no further, and who has to act. */
export const explain: Command = {
  name: "explain",
  args: ["<vm>", "<interface>"],
  values: ["vms", "interfaces"],
  summary: "Show what is known about one interface, and what happens next",
  flags: [VMI],
  run,
};
