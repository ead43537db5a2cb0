// SPDX-License-Identifier: Apache-2.0
import type { VirtualMachineInstance, VmiPhase, VmiStatus, IfaceStatus } from "@patchbay/api";
import { countPorts } from "@patchbay/domain";
import { servedNics } from "../nics/addresses/served-nic.ts";
import { openMigration } from "../migration/owner.ts";
import type { NodeVmFacts } from "../vm/node/node-vm.ts";
import { ifacesWithoutPort } from "../nics/pcie/ports.ts";
import {
  AGENT_CONNECTED,
  findCondition,
  PAUSED,
  withTransitionTimes,
  type Conditions,
  type NewCondition,
} from "./conditions.ts";
import { guestBlockedField, type BlockedReason } from "./blocked-reason.ts";
import { ifaceStatuses, type IfaceReport } from "../nics/status/ifaces.ts";
import type { LinkView } from "../guest/agent-view.ts";

/** Most links to list; the others are only counted, to keep the object small. Source: KubeVirt network/setup/netstat.go. */
const GUEST_LINKS_MAX = 10;

/** Has no name, because the link is no interface of the spec. */
function toGuestLinkStatus({ mac, name, ipv4, ipv6 }: LinkView): IfaceStatus {
  const addresses = [...(ipv4.value ?? []), ...(ipv6.value ?? [])];
  const [first] = addresses;
  return {
    infoSource: "guest-agent",
    ...(first === undefined ? {} : { ipAddress: first, ipAddresses: addresses }),
    ...(mac === undefined ? {} : { mac }),
    ...(name === undefined ? {} : { interfaceName: name }),
  };
}

/** Lists the links that the guest created (bridges, tunnels, NICs of containers), oldest first. */
export function guestLinkStatuses(links: readonly LinkView[]): readonly IfaceStatus[] {
  return links.slice(0, GUEST_LINKS_MAX).map(toGuestLinkStatus);
}

export function unlistedGuestLinks(
  links: readonly LinkView[],
): Pick<VmiStatus, "unlistedGuestInterfaces"> {
  const unlisted = links.length - GUEST_LINKS_MAX;
  return unlisted > 0 ? { unlistedGuestInterfaces: unlisted } : {};
}

export const NODE_VM_FIELDS = [
  "phase",
  "pciePorts",
  "interfaces",
  "interfaceHistory",
  "hindrance",
  "unlistedGuestInterfaces",
  "guestOSInfo",
] as const satisfies readonly (keyof VmiStatus)[];

/** Conditions that virt-handler writes. Others stay unchanged. */
export const NODE_VM_CONDITIONS: readonly string[] = [AGENT_CONNECTED, PAUSED];

/** `phase` is set only if virt-handler decides it. */
export type NodeVmStatus = Pick<VmiStatus, (typeof NODE_VM_FIELDS)[number] | "conditions">;

/**
 * Whether the agent counts as connected. A short disconnect, as in a reboot, does not matter. An agent with an open channel
 * that does not reply is not connected.
 */
function isAgentConnected({ vmi, domain, silentSince }: NodeVmFacts): boolean {
  if (domain?.running !== true || silentSince !== undefined) return false;
  const isReported = findCondition(vmi.status?.conditions, AGENT_CONNECTED) !== undefined;
  return domain.facts.agentConnected || isReported;
}

/** Source: KubeVirt pkg/virt-handler vm.go updatePausedConditions. */
const PAUSE_REASONS = {
  byUser: { reason: "PausedByUser", message: "VMI was paused by user" },
  byDisk: { reason: "PausedIOError", message: "VMI was paused, low-level IO error detected" },
} as const;

function pausedCondition({ domain }: NodeVmFacts): readonly NewCondition[] {
  if (domain?.running !== true || !domain.isPaused) return [];
  const why = domain.hasDiskError === true ? PAUSE_REASONS.byDisk : PAUSE_REASONS.byUser;
  return [{ type: PAUSED, status: "True", ...why }];
}

function listConditions(facts: NodeVmFacts, now: string): Conditions {
  const stored = facts.vmi.status?.conditions ?? [];
  const own: readonly NewCondition[] = [
    ...(isAgentConnected(facts) ? [{ type: AGENT_CONNECTED, status: "True" } as const] : []),
    ...pausedCondition(facts),
  ];
  const others = stored.filter(({ type }) => !NODE_VM_CONDITIONS.includes(type));
  return [...others, ...withTransitionTimes(own, stored, now)];
}

function systemField({ guestSystem = {} }: NodeVmFacts): Pick<VmiStatus, "guestOSInfo"> {
  return Object.keys(guestSystem).length === 0 ? {} : { guestOSInfo: guestSystem };
}

/** Phase changes that virt-handler may write. virt-controller writes all phases before the guest runs. */
const NODE_PHASES: ReadonlyMap<unknown, readonly unknown[]> = new Map([
  ["Scheduled", ["Running"]],
  ["Running", ["Succeeded", "Failed"]],
]);

export function isNodePhase(from: unknown, to: unknown): boolean {
  return NODE_PHASES.get(from)?.includes(to) === true;
}

/** Running, Succeeded or Failed; otherwise virt-controller decides the phase. */
function findPhase({ vmi, domain }: NodeVmFacts): VmiPhase | undefined {
  const reported = vmi.status?.phase;
  if (domain?.running === true) return reported === "Scheduled" ? "Running" : undefined;
  if (reported !== "Running" || domain === undefined) return undefined;
  return domain.crashed ? "Failed" : "Succeeded";
}

function portFields({ domain }: NodeVmFacts): Pick<VmiStatus, "pciePorts"> {
  return domain?.running === true ? { pciePorts: countPorts(domain.facts) } : {};
}

function observedVmi(facts: NodeVmFacts): VirtualMachineInstance {
  const interfaces = facts.ifaces.map(({ name, device }) => ({
    name,
    ...(device?.pciAddress === undefined ? {} : { pciAddress: device.pciAddress }),
  }));
  return { ...facts.vmi, status: { ...facts.vmi.status, interfaces, ...portFields(facts) } };
}

/** Whether this node may report about the guest: it owns the guest, and the guest has not migrated away. */
export function mayNodeReport({ vmi, role, domain }: NodeVmFacts): boolean {
  if (role === "target") return false;
  return openMigration(vmi) === undefined || domain?.running === true;
}

/** virt-handler's part of the status. `guest` is what blocks the VMI as a whole. */
export function buildNodeVmStatus(
  facts: NodeVmFacts,
  report: Pick<IfaceReport, "blockedReasons" | "now"> & {
    readonly guest?: BlockedReason | undefined;
  },
): NodeVmStatus {
  const phase = findPhase(facts);
  const observed = observedVmi(facts);
  const { guestLinks = [], silentSince } = facts;
  const interfaces = ifaceStatuses({
    ...report,
    ifaces: facts.ifaces,
    omissions: new Map(servedNics(facts).map(({ iface, omissions = [] }) => [iface, omissions])),
    portless: ifacesWithoutPort(observed, observed.spec, facts.network.bindings),
    ...(silentSince === undefined ? {} : { silentSince }),
  });
  return {
    interfaces: [...interfaces, ...guestLinkStatuses(guestLinks)],
    ...unlistedGuestLinks(guestLinks),
    ...systemField(facts),
    conditions: listConditions(facts, report.now),
    ...portFields(facts),
    ...(phase === undefined ? {} : { phase }),
    ...guestBlockedField(facts.vmi, report.guest, report.now),
  };
}
