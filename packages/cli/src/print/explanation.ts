// SPDX-License-Identifier: Apache-2.0
// Prints the text of `patchbay explain`: the state of an interface in each layer, and which component acts next.
import type { Iface, IfacePhase, IfaceStatus } from "@patchbay/api";
import { findReasonOwner, nextStepFor } from "@patchbay/core/reasons";
import { networkOf, phaseOfRow, reasonOf, type IfaceRow } from "./iface-rows.ts";
import { printPairs } from "./table.ts";

/** What happens next in each phase. Source: ARCHITECTURE.md, "The loops". */
const NEXT_STEPS: Readonly<Record<IfacePhase, string>> = {
  Pending: "virt-controller names the network in the pod's annotation, then net-agent runs CNI ADD",
  PodAttaching: "net-agent runs CNI ADD in the pod",
  Wiring: "virt-handler creates the bridge and the tap",
  Attaching: "virt-handler attaches the device",
  Ready: "nothing",
  PodSwapping: "net-agent runs CNI ADD for the other network in the pod",
  Switching: "virt-handler moves the tap to the other network",
  Detaching: "the guest detaches the device",
  Unwiring: "virt-handler removes the tap and the bridge",
  PodDetaching:
    "virt-controller removes the network from the annotation, then net-agent runs CNI DEL",
};

export interface ExplainedVm {
  readonly title: string;
  readonly isRunning: boolean;
  readonly node?: string;
  readonly blockedReason?: string;
  readonly problem?: string;
}

type Pairs = readonly (readonly [string, string | undefined])[];

function printSection(title: string, pairs: Pairs, absent: string): string {
  const body = printPairs(pairs, "  ");
  return `${title}\n${body === "" ? `  ${absent}\n` : body}`;
}

function ifacePairs(iface: Iface | undefined): Pairs {
  if (iface === undefined) return [];
  const kinds = ["bridge", "masquerade", "sriov", "binding"] as const;
  return [
    ["state", iface.state === undefined || iface.state === "" ? "up" : iface.state],
    ["binding", kinds.find((kind) => iface[kind] !== undefined)],
    ["model", iface.model],
    ["mac", iface.macAddress],
  ];
}

/** Returns the applied bandwidth limits as text; undefined without limits. The limits explain slow transfers to users. */
function printLimits(bandwidth: IfaceStatus["bandwidth"]): string | undefined {
  const limits = (["inbound", "outbound"] as const).flatMap((direction) => {
    const { average } = bandwidth?.[direction] ?? {};
    return average === undefined ? [] : [`${direction} ${String(average)} bytes per second`];
  });
  return limits.length === 0 ? undefined : limits.join(", ");
}

function statusPairs(status: IfaceStatus | undefined): Pairs {
  return [
    ["mac", status?.mac],
    ["pci address", status?.pciAddress],
    ["link", status?.linkState],
    ["limits", printLimits(status?.bandwidth)],
    ["reported by", status?.infoSource],
    ["in the guest", status?.interfaceName],
    ["addresses", status?.ipAddresses?.join(", ")],
  ];
}

function nextStep(row: IfaceRow, { isRunning, blockedReason }: ExplainedVm): string {
  const phase = phaseOfRow(row, isRunning);
  if (phase === "Stopped") return "the interface is plugged at the VM's next start";
  if (phase === "Ready") {
    const reasons = [row.status?.hotplug?.reason, row.attachment?.reason];
    return reasons.map(nextStepFor).find((step) => step !== undefined) ?? NEXT_STEPS[phase];
  }
  return nextStepFor(reasonOf(row)) ?? nextStepFor(blockedReason) ?? NEXT_STEPS[phase];
}

function attachmentPairs(attachment: IfaceRow["attachment"]): Pairs {
  return [
    ["state", attachment?.state],
    ["pod NIC", attachment?.podInterfaceName],
    ["mac", attachment?.mac],
    ["ips", attachment?.ips?.join(", ")],
    ["reason", attachment?.reason],
    ["message", attachment?.message],
  ];
}

function progressPairs(row: IfaceRow, explainedVm: ExplainedVm): Pairs {
  const hotplug = row.status?.hotplug;
  return [
    ["phase", phaseOfRow(row, explainedVm.isRunning)],
    ["since", hotplug?.since],
    ["attempts", hotplug?.attempts?.toString()],
    ["reason", hotplug?.reason],
    ["message", hotplug?.message],
    ["who can help", findReasonOwner(reasonOf(row))],
    ["next", nextStep(row, explainedVm)],
  ];
}

export function printExplanation(row: IfaceRow, explained: ExplainedVm): string {
  const head: Pairs = [
    ["interface", row.name],
    ["of", explained.title],
    ["node", explained.node],
    ["does not start", explained.problem],
  ];
  return [
    printPairs(head, ""),
    printSection("network", [["definition", networkOf(row)]], "not declared"),
    printSection("interface in the VM", ifacePairs(row.vmIface), "not declared"),
    printSection("interface in the VMI", ifacePairs(row.vmiIface), "not declared"),
    printSection("attachment of the pod", attachmentPairs(row.attachment), "none"),
    printSection("device", statusPairs(row.status), "none"),
    printSection("progress", progressPairs(row, explained), "none"),
  ].join("\n");
}
