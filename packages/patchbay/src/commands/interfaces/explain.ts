// SPDX-License-Identifier: Apache-2.0
// patchbay explain: shows what is known of one interface and what happens next.
import { AppError } from "@patchbay/core";
import { argumentAt, hasFlag, type Context, type Input } from "../../context.ts";
import { printExplanation } from "../../print/explanation.ts";
import { toIfaceRows } from "../../print/iface-rows.ts";
import { printResult } from "../../print/output.ts";
import { withSession } from "../../session.ts";
import { findTarget } from "../../target.ts";
import { startTrouble, vmTrouble } from "../../change/verdict.ts";

/** Runs the command. */
export async function run(context: Context, input: Input): Promise<void> {
  const iface = argumentAt(input, 1);
  await withSession(context, async (session) => {
    const query = { name: argumentAt(input, 0), isVmi: hasFlag(input, "vmi") };
    const target = await findTarget(session, query, context);
    const { kind, namespace, name, vmi } = target;
    const row = toIfaceRows(target).find((one) => one.name === iface);
    if (row === undefined) {
      const object = `${iface} of ${kind} ${namespace}/${name}`;
      throw new AppError("KUBE_NOT_FOUND", { resource: "interface", object });
    }
    const node = vmi?.status?.nodeName;
    const trouble = vmTrouble(target.vm) ?? startTrouble(vmi);
    const explained = {
      title: `${kind} ${namespace}/${name}`,
      isRunning: vmi !== undefined,
      ...(node !== undefined && { node }),
      ...(trouble !== undefined && { trouble }),
    };
    await printResult(context, {
      table: () => printExplanation(row, explained),
      data: { kind, namespace, vm: name, ...row, ...(trouble !== undefined && { trouble }) },
      names: [`interface/${iface}`],
    });
  });
}
