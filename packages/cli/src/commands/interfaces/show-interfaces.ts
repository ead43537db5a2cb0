// SPDX-License-Identifier: Apache-2.0
// patchbay get interfaces, explain and history.
import type { Command, Context } from "../../command.ts";
import { argumentAt, type Input } from "../../input.ts";
import { printResult } from "../../print/output.ts";
import { VMI } from "../flags.ts";
import type { VmiStatus, IfaceHistory } from "@patchbay/api";
import type { Target } from "../../session.ts";

async function listOne(context: Context, input: Input): Promise<void> {
  const { withTarget } = await import("../../session.ts");
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
  const { listAllInterfaces } = await import("./list-all-interfaces.ts");
  const { printInterfacesOfAll } = await import("../../print/interfaces.ts");
  await withSession(context, async (session) => {
    const vms = await listAllInterfaces(session, context.signal);
    await printResult(context, {
      table: () => printInterfacesOfAll(vms),
      data: vms.map(({ vm, rows }) => ({ vm, interfaces: rows })),
      names: vms.flatMap(({ vm, rows }) => rows.map(({ name }) => `interface/${vm}/${name}`)),
    });
  });
}

async function runGetInterfaces(context: Context, input: Input): Promise<void> {
  await (argumentAt(input, 0) === "" ? listAll(context) : listOne(context, input));
}

/** Lists interfaces, including interfaces that are not plugged yet or are being unplugged. */
export const getInterfaces: Command = {
  name: "get interfaces",
  aliases: ["interface", "ifaces"],
  args: ["[vm]"],
  values: ["vms"],
  summary:
    "List the network interfaces of a VM with their phases, or those of all VMs of the namespace",
  flags: [VMI],
  run: runGetInterfaces,
};

function readNodeDetails({ nodeName, blockedReason }: VmiStatus = {}): {
  readonly node?: string;
  readonly blockedReason?: string;
} {
  return {
    ...(nodeName !== undefined && { node: nodeName }),
    ...(blockedReason !== undefined && { blockedReason: blockedReason.reason }),
  };
}

async function explainIn(context: Context, target: Target, iface: string): Promise<void> {
  const { AppError } = await import("@patchbay/base");
  const { isLive, toIfaceRows } = await import("../../print/iface-rows.ts");
  const { printExplanation } = await import("../../print/explanation.ts");
  const { findStartProblem, findVmProblem } = await import("../../change/progress.ts");
  const { kind, namespace, name, vmi } = target;
  const title = `${kind} ${namespace}/${name}`;
  const row = toIfaceRows(target).find((ifaceRow) => ifaceRow.name === iface);
  if (row === undefined) {
    throw new AppError("KUBE_NOT_FOUND", {
      resource: "interface",
      object: `${iface} of ${title}`,
    });
  }
  const problem = findVmProblem(target.vm) ?? findStartProblem(vmi);
  const explained = {
    title,
    isRunning: isLive(vmi),
    ...readNodeDetails(vmi?.status),
    ...(problem !== undefined && { problem }),
  };
  await printResult(context, {
    table: () => printExplanation(row, explained),
    data: { kind, namespace, vm: name, ...row, ...(problem !== undefined && { trouble: problem }) },
    names: [`interface/${iface}`],
  });
}

async function runExplain(context: Context, input: Input): Promise<void> {
  const { withTarget } = await import("../../session.ts");
  await withTarget(context, input, (target) => explainIn(context, target, argumentAt(input, 1)));
}

export const explain: Command = {
  name: "explain",
  args: ["<vm>", "<interface>"],
  values: ["vms", "interfaces"],
  summary: "Show what is known about one interface, and what happens next",
  flags: [VMI],
  run: runExplain,
};

/** Returns the history of one interface, or of all interfaces if `iface` is empty. */
async function filterHistory(
  history: IfaceHistory,
  target: Target,
  iface: string,
): Promise<IfaceHistory> {
  if (iface === "") return history;
  const { toIfaceRows } = await import("../../print/iface-rows.ts");
  const filtered = history.filter(({ name }) => name === iface);
  const isKnown = toIfaceRows(target).some(({ name }) => name === iface);
  if (filtered.length > 0 || isKnown) return filtered;
  const { AppError } = await import("@patchbay/base");
  const { kind, namespace, name } = target;
  const object = `${iface} of ${kind} ${namespace}/${name}`;
  throw new AppError("KUBE_NOT_FOUND", { resource: "interface", object });
}

async function runHistory(context: Context, input: Input): Promise<void> {
  const { withTarget } = await import("../../session.ts");
  const { mergeVmHistory } = await import("@patchbay/core/history");
  const { printHistory } = await import("../../print/history.ts");
  await withTarget(context, input, async (target) => {
    const history = await filterHistory(mergeVmHistory(target), target, argumentAt(input, 1));
    await printResult(context, {
      table: () => printHistory(history),
      data: history,
      names: history.map(({ name }) => `interface/${name}`),
    });
  });
}

/** Shows the history of a VM's interfaces. It includes unplugged interfaces and guests that have stopped. */
export const history: Command = {
  name: "history",
  args: ["<vm>", "[interface]"],
  values: ["vms", "interfaces"],
  summary: "Show the last plugs, unplugs and changes of a VM's interfaces, and how long each took",
  flags: [VMI],
  run: runHistory,
};
