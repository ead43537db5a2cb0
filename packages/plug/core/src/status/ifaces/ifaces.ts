// SPDX-License-Identifier: Apache-2.0
// What virt-handler reports of the ifaces: `status.interfaces`.
import {
  isDefaultNetwork,
  type Attachment,
  type IfacePhase,
  type IfaceStatus,
} from "@patchbay/api";
import type { IfaceFacts } from "../../iface/facts.ts";
import { kindOfPhase, phaseOf } from "../../iface/phase.ts";
import type { NoPort } from "../../pcie/ports.ts";
import { mtuDiffers, partlyServed, staysOn } from "../../reasons/words.ts";
import { addressFields } from "../guest/addresses.ts";
import type { Hindrance } from "../hindrance.ts";

/** What the report needs beside the facts. */
export interface IfaceReport {
  readonly ifaces: readonly IfaceFacts[];
  /** By name of the iface. */
  readonly hindrances: Readonly<Record<string, Hindrance | undefined>>;
  /** Ifaces for which there is no port, by name. */
  readonly portless: ReadonlyMap<string, NoPort>;
  /** What the DHCP server of an iface leaves out, by name. */
  readonly leftOut?: ReadonlyMap<string, readonly string[]>;
  /** RFC 3339. */
  readonly now: string;
  /** Since when the guest's agent has not listened, RFC 3339; absent: it does, or never did. */
  readonly silentSince?: string;
}

type Hotplug = NonNullable<IfaceStatus["hotplug"]>;

function attachmentHindrance(
  facts: IfaceFacts,
  phase: IfacePhase,
): Omit<Hindrance, "attempts"> | undefined {
  const attachments: Partial<Record<IfacePhase, Attachment | undefined>> = {
    PodAttaching: facts.attachment,
    PodSwapping: facts.swap?.attachment,
  };
  const attachment = attachments[phase];
  if (attachment?.state !== "Failed") return undefined;
  const { reason = "CniFailed", message = "" } = attachment;
  const where = phase === "PodSwapping" ? [staysOn(facts.attachment?.networkName)] : [];
  return { reason, message: [message, ...where].join("; ") };
}

function bindingHindrance({ binding }: IfaceFacts): Hindrance | undefined {
  if (binding.kind !== "refused") return undefined;
  const { field, reason, message } = binding;
  return { reason, message: `${field}: ${message}`, attempts: 0 };
}

function portHindrance(facts: IfaceFacts, report: IfaceReport): Hindrance | undefined {
  const noPort = report.portless.get(facts.name);
  return noPort === undefined ? undefined : { ...noPort, attempts: 0 };
}

/** The guest was told another MTU than its network has: told while it is so. */
function mtuHindrance({ device, links }: IfaceFacts): Omit<Hindrance, "attempts"> | undefined {
  const { mtu = links.mtu } = device ?? {};
  return mtu === links.mtu || links.mtu === 0 ? undefined : mtuDiffers(mtu, links.mtu);
}

function leftOutHindrance(
  { name }: IfaceFacts,
  { leftOut }: IfaceReport,
): Omit<Hindrance, "attempts"> | undefined {
  const messages = leftOut?.get(name) ?? [];
  return messages.length === 0 ? undefined : partlyServed(messages);
}

/** What keeps a plug from going on, with nothing tried on the node. */
function waitOf(
  facts: IfaceFacts,
  phase: IfacePhase,
  report: IfaceReport,
): Omit<Hindrance, "attempts"> | undefined {
  if (phase === "Ready") return mtuHindrance(facts) ?? leftOutHindrance(facts, report);
  if (kindOfPhase(phase) === "Unplug") return undefined;
  return (
    bindingHindrance(facts) ?? attachmentHindrance(facts, phase) ?? portHindrance(facts, report)
  );
}

function hotplugOf(facts: IfaceFacts, phase: IfacePhase, report: IfaceReport): Hotplug {
  const hindrance = report.hindrances[facts.name] ?? waitOf(facts, phase, report);
  const previous = facts.reported?.hotplug;
  return {
    type: kindOfPhase(phase),
    phase,
    ...hindrance,
    since: previous?.phase === phase ? (previous.since ?? report.now) : report.now,
  };
}

const BY_MULTUS = "multus-status";

/** Multus tells of networks beside the pod's own, until they are gone. Source: KubeVirt network/controllers/vmi.go. */
function isToldByMultus({ attachment, network, reported }: IfaceFacts): boolean {
  if (network !== undefined && isDefaultNetwork(network)) return false;
  if (attachment?.state === "Attached") return true;
  return attachment?.state === "Removing" && reported?.infoSource?.includes(BY_MULTUS) === true;
}

/** Tokens in KubeVirt's order. Source: KubeVirt network/vmispec/infosource.go. */
function infoSourceOf(facts: IfaceFacts): string {
  return [
    ...(facts.device === undefined ? [] : ["domain"]),
    ...(facts.device?.guest === undefined ? [] : ["guest-agent"]),
    ...(isToldByMultus(facts) ? [BY_MULTUS] : []),
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

/** NICs in the pod beside the one that carries the device: with links of ours, or about to get some. */
function otherNicFields({ swap, left = [] }: IfaceFacts, phase: IfacePhase): Partial<IfaceStatus> {
  const isUsed = swap !== undefined && (phase === "Switching" || swap.links.bridge);
  const others = [...left, ...(isUsed ? [swap.podInterfaceName] : [])];
  return others.length === 0 ? {} : { otherPodInterfaceNames: others };
}

function statusOf(facts: IfaceFacts, report: IfaceReport): IfaceStatus | undefined {
  const phase = phaseOf(facts);
  if (phase === undefined) return undefined;
  return {
    name: facts.name,
    podInterfaceName: facts.podInterfaceName,
    ...otherNicFields(facts, phase),
    infoSource: infoSourceOf(facts),
    ...addressFields(facts, report),
    ...deviceFields(facts),
    hotplug: hotplugOf(facts, phase, report),
  };
}

/** The pod's network is what columns show as the address of the VMI. Source: KubeVirt network/setup/netstat.go. */
function podNetworkFirst(left: IfaceFacts, right: IfaceFacts): number {
  const [isLeft, isRight] = [left, right].map(
    ({ network }) => network !== undefined && isDefaultNetwork(network),
  );
  return Number(isRight) - Number(isLeft);
}

/** One entry for each iface that there is anything of, in the order of the facts, but for the pod's network. */
export function ifaceStatuses(report: IfaceReport): readonly IfaceStatus[] {
  return report.ifaces.toSorted(podNetworkFirst).flatMap((facts) => statusOf(facts, report) ?? []);
}
