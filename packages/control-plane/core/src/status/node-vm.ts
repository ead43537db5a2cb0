// SPDX-License-Identifier: Apache-2.0
// Fields of the VMI's status that virt-handler writes: `status.interfaces` and fields about the guest.
import {
  isDefaultNetwork,
  type Attachment,
  type IfacePhase,
  type IfaceStatus,
  type VirtualMachineInstance,
  type VmiPhase,
  type VmiStatus,
} from "@patchbay/api";
import type { IfaceFacts } from "../nics/facts.ts";
import { toHotplugType, decidePhase } from "../nics/phase.ts";
import { type PortProblem, findIfacesWithoutPort } from "../nics/pcie/ports.ts";
import { mtuDiffers, addressesPartlyServed, staysOnNetwork } from "../reasons/messages.ts";
import { buildAddressFields } from "../guest/addresses.ts";
import { type BlockedReason, guestBlockedField } from "./blocked-reason.ts";
import { isEqual } from "@patchbay/base";
import { findByName } from "../nics/nics.ts";
import { countPorts } from "@patchbay/domain";
import { buildServedNics } from "../nics/addresses/served-nic.ts";
import { openMigration } from "../migration/owner.ts";
import type { NodeVmFacts } from "../vm/node/node-vm.ts";
import {
  AGENT_CONNECTED,
  findCondition,
  PAUSED,
  withTransitionTimes,
  type Conditions,
  type NewCondition,
} from "./conditions.ts";
import type { LinkView } from "../guest/agent-view.ts";

export interface IfaceReport {
  readonly ifaces: readonly IfaceFacts[];
  readonly blockedReasons: Readonly<Record<string, BlockedReason | undefined>>;
  readonly portless: ReadonlyMap<string, PortProblem>;
  readonly omissions?: ReadonlyMap<string, readonly string[]>;
  readonly now: string;
  /** Time since which the guest agent has not responded, in RFC 3339. Unset while it responds or if it never did. */
  readonly silentSince?: string;
}

type Hotplug = NonNullable<IfaceStatus["hotplug"]>;

function attachmentBlockedReason(
  facts: IfaceFacts,
  phase: IfacePhase,
): Omit<BlockedReason, "attempts"> | undefined {
  const attachments: Partial<Record<IfacePhase, Attachment | undefined>> = {
    PodAttaching: facts.attachment,
    PodSwapping: facts.swap?.attachment,
  };
  const attachment = attachments[phase];
  if (attachment?.state !== "Failed") return undefined;
  const { reason = "CniFailed", message = "" } = attachment;
  const where = phase === "PodSwapping" ? [staysOnNetwork(facts.attachment?.networkName)] : [];
  return { reason, message: [message, ...where].join("; ") };
}

function bindingBlockedReason({ binding }: IfaceFacts): BlockedReason | undefined {
  if (binding.kind !== "refused") return undefined;
  const { field, reason, message } = binding;
  return { reason, message: `${field}: ${message}`, attempts: 0 };
}

function portBlockedReason(facts: IfaceFacts, report: IfaceReport): BlockedReason | undefined {
  const noPort = report.portless.get(facts.name);
  return noPort === undefined ? undefined : { ...noPort, attempts: 0 };
}

function mtuWarning({ device, links }: IfaceFacts): Omit<BlockedReason, "attempts"> | undefined {
  const { mtu = links.mtu } = device ?? {};
  return mtu === links.mtu || links.mtu === 0 ? undefined : mtuDiffers(mtu, links.mtu);
}

function addressWarning(
  { name }: IfaceFacts,
  { omissions }: IfaceReport,
): Omit<BlockedReason, "attempts"> | undefined {
  const messages = omissions?.get(name) ?? [];
  return messages.length === 0 ? undefined : addressesPartlyServed(messages);
}

/** Returns why a plug or swap is blocked although no step on the node failed, or the warning about a ready NIC. */
function findBlockedReason(
  facts: IfaceFacts,
  phase: IfacePhase,
  report: IfaceReport,
): Omit<BlockedReason, "attempts"> | undefined {
  if (phase === "Ready") return mtuWarning(facts) ?? addressWarning(facts, report);
  if (toHotplugType(phase) === "Unplug") return undefined;
  return (
    bindingBlockedReason(facts) ??
    attachmentBlockedReason(facts, phase) ??
    portBlockedReason(facts, report)
  );
}

function buildHotplug(facts: IfaceFacts, phase: IfacePhase, report: IfaceReport): Hotplug {
  const blockedReason =
    report.blockedReasons[facts.name] ?? findBlockedReason(facts, phase, report);
  const previous = facts.reported?.hotplug;
  return {
    type: toHotplugType(phase),
    phase,
    ...blockedReason,
    since: previous?.phase === phase ? (previous.since ?? report.now) : report.now,
  };
}

const MULTUS_SOURCE = "multus-status";

/** Whether the info source names Multus: for a secondary network until it is detached. Source: KubeVirt network/controllers/vmi.go. */
function isReportedByMultus({ attachment, network, reported }: IfaceFacts): boolean {
  if (network !== undefined && isDefaultNetwork(network)) return false;
  if (attachment?.state === "Attached") return true;
  return attachment?.state === "Removing" && reported?.infoSource?.includes(MULTUS_SOURCE) === true;
}

/** Joins the sources in KubeVirt's order. Source: KubeVirt network/vmispec/infosource.go. */
function buildInfoSource(facts: IfaceFacts): string {
  return [
    ...(facts.device === undefined ? [] : ["domain"]),
    ...(facts.device?.guest === undefined ? [] : ["guest-agent"]),
    ...(isReportedByMultus(facts) ? [MULTUS_SOURCE] : []),
  ].join(", ");
}

function deviceFields({ device }: IfaceFacts): Partial<IfaceStatus> {
  if (device === undefined) return {};
  const { mac, pciAddress, mtu, guest } = device;
  return {
    mac,
    queueCount: device.queues,
    linkState: device.linkUp ? "up" : "down",
    ...(pciAddress === undefined ? {} : { pciAddress }),
    ...(mtu === undefined ? {} : { mtu }),
    ...(guest?.name === undefined ? {} : { interfaceName: guest.name }),
  };
}

function otherNicFields(
  { swap, leftovers = [] }: IfaceFacts,
  phase: IfacePhase,
): Partial<IfaceStatus> {
  const isUsed = swap !== undefined && (phase === "Switching" || swap.links.bridge);
  const others = [...leftovers, ...(isUsed ? [swap.podInterfaceName] : [])];
  return others.length === 0 ? {} : { otherPodInterfaceNames: others };
}

function buildStatus(facts: IfaceFacts, report: IfaceReport): IfaceStatus | undefined {
  const phase = decidePhase(facts);
  if (phase === undefined) return undefined;
  return {
    name: facts.name,
    podInterfaceName: facts.podInterfaceName,
    ...otherNicFields(facts, phase),
    infoSource: buildInfoSource(facts),
    ...buildAddressFields(facts, report),
    ...deviceFields(facts),
    hotplug: buildHotplug(facts, phase, report),
  };
}

/** Sorts the pod network first, because clients show its address as the VMI's. Source: KubeVirt network/setup/netstat.go. */
function comparePodNetwork(left: IfaceFacts, right: IfaceFacts): number {
  const [isLeft, isRight] = [left, right].map(
    ({ network }) => network !== undefined && isDefaultNetwork(network),
  );
  return Number(isRight) - Number(isLeft);
}

/** Returns one entry for each interface that exists: the pod network's first, then in the order of the facts. */
export function ifaceStatuses(report: IfaceReport): readonly IfaceStatus[] {
  return report.ifaces
    .toSorted(comparePodNetwork)
    .flatMap((facts) => buildStatus(facts, report) ?? []);
}

/** Phases of a plug that waits for its pod network. */
const POD_PHASES: readonly (IfacePhase | undefined)[] = ["Pending", "PodAttaching"];

function isWaitingForPod({ hotplug }: IfaceStatus): boolean {
  return POD_PHASES.includes(hotplug?.phase) && hotplug?.reason === undefined;
}

/** Whether at most one unplug request was sent, to which the guest has not responded yet. */
function isFirstUnplugRequest({ hotplug }: IfaceStatus): boolean {
  return (
    hotplug?.phase === "Detaching" &&
    (hotplug.reason === undefined ||
      (hotplug.reason === "WaitingForGuest" && (hotplug.attempts ?? 0) <= 1))
  );
}

function isTransient(before: IfaceStatus | undefined, after: IfaceStatus): boolean {
  if (before === undefined) return isWaitingForPod(after);
  if (isEqual(before, after)) return true;
  const { hotplug } = after;
  const isOnly = isEqual({ ...before, hotplug }, after);
  // The end of a problem must be reported at once.
  if (!isOnly || before.hotplug?.reason !== undefined) return false;
  return (isWaitingForPod(before) && isWaitingForPod(after)) || isFirstUnplugRequest(after);
}

/** Whether the change is transient and need not be written at once: a plug waits for its pod, or a first unplug request was sent. */
export function isTransientChange(
  before: readonly IfaceStatus[],
  after: readonly IfaceStatus[],
): boolean {
  const guestLinks = (list: readonly IfaceStatus[]): readonly IfaceStatus[] =>
    list.filter(({ name }) => name === undefined);
  const named = after.filter(({ name }) => name !== undefined);
  return (
    isEqual(guestLinks(before), guestLinks(after)) &&
    before.every(({ name }) => name === undefined || findByName(named, name) !== undefined) &&
    named.every((status) => isTransient(findByName(before, status.name ?? ""), status))
  );
}

/** Most guest-created links to list, so that the object stays small. Source: KubeVirt network/setup/netstat.go. */
const GUEST_LINKS_MAX = 10;

/** Returns an entry without a name, because the link is no interface of the spec. */
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

/** Returns entries for links that the guest created (bridges, tunnels, NICs of containers), oldest first. */
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

/** Condition types that virt-handler writes. It copies all others. */
export const NODE_VM_CONDITIONS: readonly string[] = [AGENT_CONNECTED, PAUSED];

/** virt-handler's part of the status. `phase` is unset if virt-controller decides it. */
export type NodeVmStatus = Pick<VmiStatus, (typeof NODE_VM_FIELDS)[number] | "conditions">;

/** Whether the agent counts as connected. A connected agent stays connected in a reboot, but not if it does not reply. */
function isAgentConnected({ vmi, domain, silentSince }: NodeVmFacts): boolean {
  if (domain?.running !== true || silentSince !== undefined) return false;
  const isReported = findCondition(vmi.status?.conditions, AGENT_CONNECTED) !== undefined;
  return domain.facts.agentConnected || isReported;
}

/** Reasons and messages of the condition Paused. Source: KubeVirt pkg/virt-handler vm.go updatePausedConditions. */
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

/** Phases that virt-handler may write, by the current phase. virt-controller writes all others. */
const NODE_PHASES: ReadonlyMap<unknown, readonly unknown[]> = new Map([
  ["Scheduled", ["Running"]],
  ["Running", ["Succeeded", "Failed"]],
]);

export function isNodePhase(from: unknown, to: unknown): boolean {
  return NODE_PHASES.get(from)?.includes(to) === true;
}

/** Returns Running, Succeeded or Failed. Undefined if virt-controller decides the phase. */
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

/** Whether this node may report about the guest: it owns the guest, which still runs here if a migration is open. */
export function mayNodeReport({ vmi, role, domain }: NodeVmFacts): boolean {
  if (role === "target") return false;
  return openMigration(vmi) === undefined || domain?.running === true;
}

/** Builds virt-handler's part of the status. `report.guest` is what blocks the VMI as a whole. */
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
    omissions: new Map(
      buildServedNics(facts).map(({ iface, omissions = [] }) => [iface, omissions]),
    ),
    portless: findIfacesWithoutPort(observed, observed.spec, facts.network.bindings),
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
