// SPDX-License-Identifier: Apache-2.0
import {
  isDefaultNetwork,
  type Attachment,
  type IfacePhase,
  type IfaceStatus,
} from "@patchbay/api";
import type { IfaceFacts } from "../facts.ts";
import { toHotplugType, decidePhase } from "../phase.ts";
import type { PortProblem } from "../pcie/ports.ts";
import { mtuDiffers, addressesPartlyServed, staysOnNetwork } from "../../reasons/messages.ts";
import { addressFields } from "../../guest/addresses.ts";
import type { BlockedReason } from "../../status/blocked-reason.ts";
import { isEqual } from "@patchbay/base";
import { findByName } from "../nics.ts";

export interface IfaceReport {
  readonly ifaces: readonly IfaceFacts[];
  readonly blockedReasons: Readonly<Record<string, BlockedReason | undefined>>;
  readonly portless: ReadonlyMap<string, PortProblem>;
  readonly omissions?: ReadonlyMap<string, readonly string[]>;
  readonly now: string;
  /** Since when the guest agent has not responded, RFC 3339. Unset while it responds or if it never did. */
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

/** Why a plug or a ready NIC is blocked although no step on the node failed. */
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

/** Multus reports secondary networks until they are gone. Source: KubeVirt network/controllers/vmi.go. */
function isReportedByMultus({ attachment, network, reported }: IfaceFacts): boolean {
  if (network !== undefined && isDefaultNetwork(network)) return false;
  if (attachment?.state === "Attached") return true;
  return attachment?.state === "Removing" && reported?.infoSource?.includes(MULTUS_SOURCE) === true;
}

/** Tokens in KubeVirt's order. Source: KubeVirt network/vmispec/infosource.go. */
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
    ...addressFields(facts, report),
    ...deviceFields(facts),
    hotplug: buildHotplug(facts, phase, report),
  };
}

/** The pod network comes first, because its address is shown as the VMI's. Source: KubeVirt network/setup/netstat.go. */
function podNetworkFirst(leftovers: IfaceFacts, right: IfaceFacts): number {
  const [isLeft, isRight] = [leftovers, right].map(
    ({ network }) => network !== undefined && isDefaultNetwork(network),
  );
  return Number(isRight) - Number(isLeft);
}

/** One entry for each interface that exists, in the order of the facts except for the pod network. */
export function ifaceStatuses(report: IfaceReport): readonly IfaceStatus[] {
  return report.ifaces
    .toSorted(podNetworkFirst)
    .flatMap((facts) => buildStatus(facts, report) ?? []);
}

/** Phases of a plug that wait for the pod. virt-controller reports those. */
const POD_PHASES: readonly (IfacePhase | undefined)[] = ["Pending", "PodAttaching"];

function isWaitingForPod({ hotplug }: IfaceStatus): boolean {
  return POD_PHASES.includes(hotplug?.phase) && hotplug?.reason === undefined;
}

/** The first unplug request was sent, and the guest has not responded yet. */
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
  // The end of a problem is reported.
  if (!isOnly || before.hotplug?.reason !== undefined) return false;
  return (isWaitingForPod(before) && isWaitingForPod(after)) || isFirstUnplugRequest(after);
}

/** Whether the change is transient and need not be written at once: a plug waits for its pod, or a first unplug request was sent. */
export function isTransientChange(
  before: readonly IfaceStatus[],
  after: readonly IfaceStatus[],
): boolean {
  const own = (list: readonly IfaceStatus[]): readonly IfaceStatus[] =>
    list.filter(({ name }) => name === undefined);
  const named = after.filter(({ name }) => name !== undefined);
  return (
    isEqual(own(before), own(after)) &&
    before.every(({ name }) => name === undefined || findByName(named, name) !== undefined) &&
    named.every((status) => isTransient(findByName(before, status.name ?? ""), status))
  );
}
