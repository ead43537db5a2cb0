// SPDX-License-Identifier: Apache-2.0
// What virt-handler reports of a VMI: its own fields of the status.
import type { VirtualMachineInstance, VmiPhase, VmiStatus } from "@patchbay/api";
import { countPorts } from "@patchbay/domain";
import type { NodeVmFacts } from "../plan/node/node-vm.ts";
import { ifacesWithoutPort } from "../pcie/ports.ts";
import { guestLinkStatuses, unlistedGuestLinks } from "./guest/guest-links.ts";
import { guestHindranceField, type Hindrance } from "./hindrance.ts";
import { ifaceStatuses, type IfaceReport } from "./ifaces.ts";

/** The fields of a VMI's status that virt-handler writes; phase only when it is its to say. */
export type NodeVmStatus = Pick<
  VmiStatus,
  "interfaces" | "unlistedGuestInterfaces" | "pciePorts" | "phase" | "hindrance"
>;

/** Running, and the end of what ran; everything before is virt-controller's word. */
function phaseOfDomain({ vmi, domain }: NodeVmFacts): VmiPhase | undefined {
  const reported = vmi.status?.phase;
  if (domain?.running === true) return reported === "Scheduled" ? "Running" : undefined;
  if (reported !== "Running" || domain === undefined) return undefined;
  return domain.crashed ? "Failed" : "Succeeded";
}

function portFields({ domain }: NodeVmFacts): Pick<VmiStatus, "pciePorts"> {
  return domain?.running === true ? { pciePorts: countPorts(domain.facts) } : {};
}

/** The VMI with the ports and devices that it has now, not those that were reported last. */
function vmiAsSeen(facts: NodeVmFacts): VirtualMachineInstance {
  const interfaces = facts.ifaces.map(({ name, device }) => ({
    name,
    ...(device?.pciAddress === undefined ? {} : { pciAddress: device.pciAddress }),
  }));
  return { ...facts.vmi, status: { ...facts.vmi.status, interfaces, ...portFields(facts) } };
}

/** virt-handler's part of the status; `guest` is what holds up the VMI as a whole. */
export function nodeVmStatus(
  facts: NodeVmFacts,
  report: Pick<IfaceReport, "hindrances" | "now"> & { readonly guest?: Hindrance | undefined },
): NodeVmStatus {
  const phase = phaseOfDomain(facts);
  const seen = vmiAsSeen(facts);
  const { guestLinks = [], silentSince } = facts;
  const interfaces = ifaceStatuses({
    ...report,
    ifaces: facts.ifaces,
    portless: ifacesWithoutPort(seen, seen.spec, facts.network.bindings),
    ...(silentSince === undefined ? {} : { silentSince }),
  });
  return {
    interfaces: [...interfaces, ...guestLinkStatuses(guestLinks)],
    ...unlistedGuestLinks(guestLinks),
    ...portFields(facts),
    ...(phase === undefined ? {} : { phase }),
    ...guestHindranceField(facts.vmi, report.guest, report.now),
  };
}
