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
import { findMtu, type IfaceFacts } from "../nics/facts.ts";
import { toHotplugType, decidePhase } from "../nics/phase.ts";
import { type PortProblem, findIfacesWithoutPort } from "../nics/pcie/ports.ts";
import {
  mtuDiffers,
  mtuReduced,
  addressesPartlyServed,
  staysOnNetwork,
} from "../reasons/messages.ts";
import { buildAddressFields } from "../guest/addresses.ts";
import { type BlockedReason, guestBlockedField } from "./blocked-reason.ts";
import { isEqual } from "@patchbay/base";
import { findByName } from "../nics/nics.ts";
import { countPorts } from "@patchbay/domain";
import { buildServedNics } from "../nics/addresses/served-nic.ts";
import { openMigration } from "../migration/owner.ts";
import { isPausedByUser, type NodeVmFacts } from "../vm/node/node-vm.ts";
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
  /** Time at which the guest agent stopped responding, in RFC 3339. Unset if it responds or has never responded. */
  readonly silentSince?: string;
}

type Hotplug = NonNullable<IfaceStatus["hotplug"]>;

function findAttachmentBlockedReason(
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
  const placeNotes = phase === "PodSwapping" ? [staysOnNetwork(facts.attachment?.networkName)] : [];
  return { reason, message: [message, ...placeNotes].join("; ") };
}

function findBindingBlockedReason({ binding }: IfaceFacts): BlockedReason | undefined {
  if (binding.kind !== "refused") return undefined;
  const { field, reason, message } = binding;
  return { reason, message: `${field}: ${message}`, attempts: 0 };
}

function findPortBlockedReason(facts: IfaceFacts, report: IfaceReport): BlockedReason | undefined {
  const noPort = report.portless.get(facts.name);
  return noPort === undefined ? undefined : { ...noPort, attempts: 0 };
}

/** Returns a warning if the device's MTU differs from the current MTU, or if the requested MTU exceeds the pod NIC's MTU. */
function findMtuWarning(facts: IfaceFacts): Omit<BlockedReason, "attempts"> | undefined {
  const { device, iface, links } = facts;
  if (links.mtu === 0) return undefined;
  const current = findMtu(facts);
  const { mtu = current } = device ?? {};
  if (mtu !== current)
    return mtuDiffers(mtu, { mtu: current, isRequested: current === iface?.mtu });
  const { mtu: requested = current } = iface ?? {};
  return requested > current ? mtuReduced(requested, current) : undefined;
}

function attachmentWarning({
  attachment,
}: IfaceFacts): Omit<BlockedReason, "attempts"> | undefined {
  const { state, reason, message = "" } = attachment ?? {};
  return state === "Attached" && reason !== undefined ? { reason, message } : undefined;
}

function findAddressWarning(
  { name }: IfaceFacts,
  { omissions }: IfaceReport,
): Omit<BlockedReason, "attempts"> | undefined {
  const messages = omissions?.get(name) ?? [];
  return messages.length === 0 ? undefined : addressesPartlyServed(messages);
}

/** Called if no step failed. Returns a ready NIC's warning, or the reason why a plug or swap waits. Returns undefined for an unplug. */
function findBlockedReason(
  facts: IfaceFacts,
  phase: IfacePhase,
  report: IfaceReport,
): Omit<BlockedReason, "attempts"> | undefined {
  if (phase === "Ready")
    return findMtuWarning(facts) ?? findAddressWarning(facts, report) ?? attachmentWarning(facts);
  if (toHotplugType(phase) === "Unplug") return undefined;
  return (
    findBindingBlockedReason(facts) ??
    findAttachmentBlockedReason(facts, phase) ??
    findPortBlockedReason(facts, report)
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

/**
 * Returns whether `infoSource` must contain `multus-status`, which means that the pod is attached to the secondary network. Source:
 * KubeVirt network/controllers/vmi.go.
 */
function isReportedByMultus({ attachment, network, reported }: IfaceFacts): boolean {
  if (network !== undefined && isDefaultNetwork(network)) return false;
  if (network?.resourceClaim !== undefined) return false;
  if (attachment?.state === "Attached") return true;
  // During the removal of an attachment, Multus remains a source only if the status already lists it as a source.
  return attachment?.state === "Removing" && reported?.infoSource?.includes(MULTUS_SOURCE) === true;
}

/** Lists the components that report the interface, in KubeVirt's order. Source: KubeVirt network/vmispec/infosource.go. */
function buildInfoSource(
  facts: IfaceFacts,
  { addressInfo }: Pick<IfaceStatus, "addressInfo">,
): string {
  return [
    ...(facts.device === undefined ? [] : ["domain"]),
    ...(facts.device?.guest === undefined ? [] : ["guest-agent"]),
    ...(isReportedByMultus(facts) ? [MULTUS_SOURCE] : []),
    ...(addressInfo?.source === "learned" ? ["learned"] : []),
  ].join(", ");
}

function buildDeviceFields({ device, iface, links }: IfaceFacts): Partial<IfaceStatus> {
  if (device === undefined) return {};
  const { bandwidth } = iface ?? {};
  const { mac, pciAddress, mtu, guest } = device;
  return {
    mac,
    queueCount: device.queues,
    linkState: device.linkUp ? "up" : "down",
    ...(pciAddress === undefined ? {} : { pciAddress }),
    ...(mtu === undefined ? {} : { mtu }),
    ...(bandwidth !== undefined && links.isWired && { bandwidth }),
    ...(guest?.name === undefined ? {} : { interfaceName: guest.name }),
  };
}

function buildOtherNicFields(
  { swap, leftovers = [] }: IfaceFacts,
  phase: IfacePhase,
): Partial<IfaceStatus> {
  const isUsed = swap !== undefined && (phase === "Switching" || swap.links.hasBridge);
  const otherNics = [...leftovers, ...(isUsed ? [swap.podInterfaceName] : [])];
  return otherNics.length === 0 ? {} : { otherPodInterfaceNames: otherNics };
}

function buildStatus(facts: IfaceFacts, report: IfaceReport): IfaceStatus | undefined {
  const phase = decidePhase(facts);
  if (phase === undefined) return undefined;
  const addressFields = buildAddressFields(facts, report);
  return {
    name: facts.name,
    podInterfaceName: facts.podInterfaceName,
    ...buildOtherNicFields(facts, phase),
    infoSource: buildInfoSource(facts, addressFields),
    ...addressFields,
    ...buildDeviceFields(facts),
    hotplug: buildHotplug(facts, phase, report),
  };
}

/** Sorts the pod network first, because clients display the address of the first interface. Source: KubeVirt network/setup/netstat.go. */
function comparePodNetwork(left: IfaceFacts, right: IfaceFacts): number {
  const [isLeft, isRight] = [left, right].map(
    ({ network }) => network !== undefined && isDefaultNetwork(network),
  );
  return Number(isRight) - Number(isLeft);
}

/** Returns one entry for each existing interface, the interface of the pod network first. */
export function buildIfaceStatuses(report: IfaceReport): readonly IfaceStatus[] {
  return report.ifaces
    .toSorted(comparePodNetwork)
    .flatMap((facts) => buildStatus(facts, report) ?? []);
}

const POD_PHASES: readonly (IfacePhase | undefined)[] = ["Pending", "PodAttaching"];

function isWaitingForPod({ hotplug }: IfaceStatus): boolean {
  return POD_PHASES.includes(hotplug?.phase) && hotplug?.reason === undefined;
}

/** Checks whether virt-handler has sent at most one unplug request and the guest has not responded. */
function isFirstUnplugRequest({ hotplug }: IfaceStatus): boolean {
  return (
    hotplug?.phase === "Detaching" &&
    (hotplug.reason === undefined ||
      (hotplug.reason === "WaitingForGuest" && (hotplug.attempts ?? 0) <= 1))
  );
}

function isTransient(oldStatus: IfaceStatus | undefined, newStatus: IfaceStatus): boolean {
  if (oldStatus === undefined) return isWaitingForPod(newStatus);
  if (isEqual(oldStatus, newStatus)) return true;
  const { hotplug } = newStatus;
  const isHotplugChangeOnly = isEqual({ ...oldStatus, hotplug }, newStatus);
  // Changes of fields other than `hotplug`, and changes of a reported reason, must appear in the status immediately.
  if (!isHotplugChangeOnly || oldStatus.hotplug?.reason !== undefined) return false;
  return (
    (isWaitingForPod(oldStatus) && isWaitingForPod(newStatus)) || isFirstUnplugRequest(newStatus)
  );
}

/** Checks whether virt-handler may write the change later, because the new state is only transient. */
export function isTransientChange(
  oldStatuses: readonly IfaceStatus[],
  newStatuses: readonly IfaceStatus[],
): boolean {
  const filterGuestLinks = (statuses: readonly IfaceStatus[]): readonly IfaceStatus[] =>
    statuses.filter(({ name }) => name === undefined);
  const namedEntries = newStatuses.filter(({ name }) => name !== undefined);
  return (
    isEqual(filterGuestLinks(oldStatuses), filterGuestLinks(newStatuses)) &&
    oldStatuses.every(
      ({ name }) => name === undefined || findByName(namedEntries, name) !== undefined,
    ) &&
    namedEntries.every((status) => isTransient(findByName(oldStatuses, status.name ?? ""), status))
  );
}

/** Maximum number of guest-created links to list, which limits the size of the VMI. Source: KubeVirt network/setup/netstat.go. */
const GUEST_LINKS_MAX = 10;

/** Returns an entry without `name`, because this field refers to an interface in the spec, and the spec has none for the link. */
function toGuestLinkStatus({ mac, name, ipv4, ipv6 }: LinkView): IfaceStatus {
  const addresses = [...(ipv4.value ?? []), ...(ipv6.value ?? [])];
  const [firstAddress] = addresses;
  return {
    infoSource: "guest-agent",
    ...(firstAddress === undefined ? {} : { ipAddress: firstAddress, ipAddresses: addresses }),
    ...(mac === undefined ? {} : { mac }),
    ...(name === undefined ? {} : { interfaceName: name }),
  };
}

/** Returns entries for the first {@link GUEST_LINKS_MAX} links that the guest created, for example bridges, tunnels and container NICs. */
export function buildGuestLinkStatuses(links: readonly LinkView[]): readonly IfaceStatus[] {
  return links.slice(0, GUEST_LINKS_MAX).map(toGuestLinkStatus);
}

export function countUnlistedGuestLinks(
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
  "blockedReason",
  "unlistedGuestInterfaces",
  "guestOSInfo",
] as const satisfies readonly (keyof VmiStatus)[];

/** Condition types that virt-handler writes. virt-handler preserves all other conditions. */
export const NODE_VM_CONDITIONS: readonly string[] = [AGENT_CONNECTED, PAUSED];

/** Fields of the status that virt-handler writes. `phase` is unset if virt-controller decides the phase. */
export type NodeVmStatus = Pick<VmiStatus, (typeof NODE_VM_FIELDS)[number] | "conditions">;

/** Returns whether the guest agent counts as connected. During a reboot, the agent does so until it leaves requests unanswered. */
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

function buildPausedCondition(facts: NodeVmFacts): readonly NewCondition[] {
  if (facts.domain?.running !== true || !facts.domain.isPaused) return [];
  const why = isPausedByUser(facts) ? PAUSE_REASONS.byUser : PAUSE_REASONS.byDisk;
  return [{ type: PAUSED, status: "True", ...why }];
}

function listConditions(facts: NodeVmFacts, now: string): Conditions {
  const storedConditions = facts.vmi.status?.conditions ?? [];
  const ownConditions: readonly NewCondition[] = [
    ...(isAgentConnected(facts) ? [{ type: AGENT_CONNECTED, status: "True" } as const] : []),
    ...buildPausedCondition(facts),
  ];
  const otherConditions = storedConditions.filter(({ type }) => !NODE_VM_CONDITIONS.includes(type));
  return [...otherConditions, ...withTransitionTimes(ownConditions, storedConditions, now)];
}

function buildSystemField({ guestSystem = {} }: NodeVmFacts): Pick<VmiStatus, "guestOSInfo"> {
  return Object.keys(guestSystem).length === 0 ? {} : { guestOSInfo: guestSystem };
}

/** Phases that virt-handler may write, by the current phase. virt-controller writes all other phases. */
const NODE_PHASES: ReadonlyMap<unknown, readonly unknown[]> = new Map([
  ["Scheduled", ["Running"]],
  ["Running", ["Succeeded", "Failed"]],
]);

export function isNodePhase(oldPhase: unknown, newPhase: unknown): boolean {
  return NODE_PHASES.get(oldPhase)?.includes(newPhase) === true;
}

/** Returns the new phase: Running, Succeeded or Failed. Returns undefined if virt-handler does not change the phase. */
function findPhase({ vmi, domain }: NodeVmFacts): VmiPhase | undefined {
  const reportedPhase = vmi.status?.phase;
  if (domain?.running === true) return reportedPhase === "Scheduled" ? "Running" : undefined;
  if (reportedPhase !== "Running" || domain === undefined) return undefined;
  return domain.crashed ? "Failed" : "Succeeded";
}

function buildPortFields({ domain }: NodeVmFacts): Pick<VmiStatus, "pciePorts"> {
  return domain?.running === true ? { pciePorts: countPorts(domain.facts) } : {};
}

function observedVmi(facts: NodeVmFacts): VirtualMachineInstance {
  const interfaces = facts.ifaces.map(({ name, device }) => ({
    name,
    ...(device?.pciAddress === undefined ? {} : { pciAddress: device.pciAddress }),
  }));
  return { ...facts.vmi, status: { ...facts.vmi.status, interfaces, ...buildPortFields(facts) } };
}

/** Checks whether this node may report the guest's status. During a migration, only the source may, and only while it runs the guest. */
export function mayNodeReport({ vmi, role, domain }: NodeVmFacts): boolean {
  if (role === "target") return false;
  return openMigration(vmi) === undefined || domain?.running === true;
}

/** Builds the fields of the status that virt-handler writes. `report.guest` is set if the whole VMI is blocked, not just one interface. */
export function buildNodeVmStatus(
  facts: NodeVmFacts,
  report: Pick<IfaceReport, "blockedReasons" | "now"> & {
    readonly guest?: BlockedReason | undefined;
  },
): NodeVmStatus {
  const phase = findPhase(facts);
  const observed = observedVmi(facts);
  const { guestLinks = [], silentSince } = facts;
  const interfaces = buildIfaceStatuses({
    ...report,
    ifaces: facts.ifaces,
    omissions: new Map(
      buildServedNics(facts).map(({ iface, omissions = [] }) => [iface, omissions]),
    ),
    portless: findIfacesWithoutPort(observed, observed.spec, facts.network.bindings),
    ...(silentSince === undefined ? {} : { silentSince }),
  });
  return {
    interfaces: [...interfaces, ...buildGuestLinkStatuses(guestLinks)],
    ...countUnlistedGuestLinks(guestLinks),
    ...buildSystemField(facts),
    conditions: listConditions(facts, report.now),
    ...buildPortFields(facts),
    ...(phase === undefined ? {} : { phase }),
    ...guestBlockedField(facts.vmi, report.guest, report.now),
  };
}
