// SPDX-License-Identifier: Apache-2.0
// What virt-handler reports of a VMI: its own fields of the status.
import type { VmiPhase, VmiStatus } from "@patchbay/api";
import { countPorts } from "@patchbay/domain";
import type { NodeVmFacts } from "../plan/node-vm.ts";
import { ifaceStatuses, type IfaceReport } from "./ifaces.ts";

/** The fields of a VMI's status that virt-handler writes; phase only when it is its to say. */
export type NodeVmStatus = Pick<VmiStatus, "interfaces" | "pciePorts" | "phase">;

/** Running, and the end of what ran; everything before is virt-controller's word. */
function phaseOfDomain({ vmi, domain }: NodeVmFacts): VmiPhase | undefined {
  const reported = vmi.status?.phase;
  if (domain?.running === true) return reported === "Scheduled" ? "Running" : undefined;
  if (reported !== "Running" || domain === undefined) return undefined;
  return domain.crashed ? "Failed" : "Succeeded";
}

/** virt-handler's part of the status. */
export function nodeVmStatus(
  facts: NodeVmFacts,
  report: Omit<IfaceReport, "ifaces">,
): NodeVmStatus {
  const phase = phaseOfDomain(facts);
  const interfaces = ifaceStatuses({ ...report, ifaces: facts.ifaces });
  return {
    interfaces: [...interfaces],
    ...(facts.domain?.running === true ? { pciePorts: countPorts(facts.domain.facts) } : {}),
    ...(phase === undefined ? {} : { phase }),
  };
}
