// SPDX-License-Identifier: Apache-2.0
// What virt-handler reports of a VMI: its own fields of the status.
import type { VirtualMachineInstance, VmiPhase, VmiStatus } from "@patchbay/api";
import { countPorts } from "@patchbay/domain";
import { servedNics } from "../addresses/served-nic.ts";
import { openMigration } from "../migration/owner.ts";
import type { NodeVmFacts } from "../plan/node/node-vm.ts";
import { ifacesWithoutPort } from "../pcie/ports.ts";
import {
  AGENT_CONNECTED,
  findCondition,
  PAUSED,
  withTimes,
  type Conditions,
  type NewCondition,
} from "./conditions.ts";
import { guestLinkStatuses, unlistedGuestLinks } from "./guest/guest-links.ts";
import { guestHindranceField, type Hindrance } from "./hindrance.ts";
import { ifaceStatuses, type IfaceReport } from "./ifaces/ifaces.ts";

/** The fields of a VMI's status that virt-handler writes, beside its conditions. */
export const NODE_VM_FIELDS = [
  "phase",
  "pciePorts",
  "interfaces",
  "interfaceHistory",
  "hindrance",
  "unlistedGuestInterfaces",
  "guestOSInfo",
] as const satisfies readonly (keyof VmiStatus)[];

/** The conditions of a VMI that are virt-handler's; the others are left as they are. */
export const NODE_VM_CONDITIONS: readonly string[] = [AGENT_CONNECTED, PAUSED];

/** What virt-handler reports; phase only when it is its to say. */
export type NodeVmStatus = Pick<VmiStatus, (typeof NODE_VM_FIELDS)[number] | "conditions">;

/**
 * An agent that disconnects for a moment, as that of a guest that reboots, stays connected. One that has the channel open
 * and does not answer is not.
 */
function isAgentTold({ vmi, domain, silentSince }: NodeVmFacts): boolean {
  if (domain?.running !== true || silentSince !== undefined) return false;
  const isTold = findCondition(vmi.status?.conditions, AGENT_CONNECTED) !== undefined;
  return domain.facts.agentConnected || isTold;
}

/** Source: KubeVirt pkg/virt-handler vm.go updatePausedConditions. */
const PAUSES = {
  byUser: { reason: "PausedByUser", message: "VMI was paused by user" },
  byDisk: { reason: "PausedIOError", message: "VMI was paused, low-level IO error detected" },
} as const;

function pauseOf({ domain }: NodeVmFacts): readonly NewCondition[] {
  if (domain?.running !== true || !domain.isPaused) return [];
  const why = domain.hasDiskError === true ? PAUSES.byDisk : PAUSES.byUser;
  return [{ type: PAUSED, status: "True", ...why }];
}

/** With the condition of the agent while one listens, and of the pause while there is one. */
function conditionsOf(facts: NodeVmFacts, now: string): Conditions {
  const stored = facts.vmi.status?.conditions ?? [];
  const own: readonly NewCondition[] = [
    ...(isAgentTold(facts) ? [{ type: AGENT_CONNECTED, status: "True" } as const] : []),
    ...pauseOf(facts),
  ];
  const others = stored.filter(({ type }) => !NODE_VM_CONDITIONS.includes(type));
  return [...others, ...withTimes(own, stored, now)];
}

/** What the guest says of its system; what it once said stays. */
function systemField({ guestSystem = {} }: NodeVmFacts): Pick<VmiStatus, "guestOSInfo"> {
  return Object.keys(guestSystem).length === 0 ? {} : { guestOSInfo: guestSystem };
}

/** Phases that virt-handler may tell after a phase; everything before the guest runs is virt-controller's word. */
const PHASES_AFTER: ReadonlyMap<unknown, readonly unknown[]> = new Map([
  ["Scheduled", ["Running"]],
  ["Running", ["Succeeded", "Failed"]],
]);

/** Whether the phase `to` after `from` is virt-handler's to tell. */
export function isNodesPhase(from: unknown, to: unknown): boolean {
  return PHASES_AFTER.get(from)?.includes(to) === true;
}

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

/** Whether the node has anything to say of the guest: it owns it, and the guest has not left it by now. */
export function isNodesWord({ vmi, role, domain }: NodeVmFacts): boolean {
  if (role === "target") return false;
  return openMigration(vmi) === undefined || domain?.running === true;
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
    leftOut: new Map(servedNics(facts).map(({ iface, leftOut = [] }) => [iface, leftOut])),
    portless: ifacesWithoutPort(seen, seen.spec, facts.network.bindings),
    ...(silentSince === undefined ? {} : { silentSince }),
  });
  return {
    interfaces: [...interfaces, ...guestLinkStatuses(guestLinks)],
    ...unlistedGuestLinks(guestLinks),
    ...systemField(facts),
    conditions: conditionsOf(facts, report.now),
    ...portFields(facts),
    ...(phase === undefined ? {} : { phase }),
    ...guestHindranceField(facts.vmi, report.guest, report.now),
  };
}
