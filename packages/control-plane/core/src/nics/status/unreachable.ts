// SPDX-License-Identifier: Apache-2.0
// Builds `status.interfaces` from the earlier status, because links and domain cannot be observed while libvirt does not respond.
import type {
  BindingRegistry,
  IfacePhase,
  IfaceStatus,
  VirtualMachineInstance,
} from "@patchbay/api";
import { collectIfaceFacts, decidePhase } from "../phase.ts";
import { NO_LINKS, type DeviceFacts, type IfaceFacts } from "../facts.ts";
import { buildIfaceStatuses } from "../../status/node-vm.ts";
import { findIfacesWithoutPort } from "../pcie/ports.ts";
import { reasonOf, messageWithAdvice } from "../../reasons/of-error.ts";
import type { Reason } from "../../reasons/table.ts";
import type { BlockedReason } from "../../status/blocked-reason.ts";
import { findByName } from "../nics.ts";
import { EMPTY_GUEST_VIEW } from "../../guest/agent-view.ts";
import { listReportedLearned } from "../../guest/learned-addresses.ts";

const NODE_PHASES: ReadonlySet<IfacePhase | undefined> = new Set<IfacePhase>([
  "Wiring",
  "Attaching",
  "Switching",
  "Detaching",
  "Unwiring",
]);

const WIRED_PHASES: ReadonlySet<string | undefined> = new Set<IfacePhase>([
  "Attaching",
  "Ready",
  "PodSwapping",
  "Switching",
  "Detaching",
]);

function buildReportedDevice(reported: IfaceStatus | undefined): DeviceFacts | undefined {
  if (reported?.queueCount === undefined) return undefined;
  const { mac = "", queueCount, pciAddress, mtu, interfaceName: name } = reported;
  const isKnown = reported.infoSource?.includes("guest-agent") === true;
  return {
    alias: "",
    mac,
    linkUp: reported.linkState !== "down",
    queues: queueCount,
    ...(pciAddress === undefined ? {} : { pciAddress }),
    ...(mtu === undefined ? {} : { mtu }),
    ...(isKnown ? { guest: name === undefined ? {} : { name } } : {}),
  };
}

/** Returns the pending network swap. Derives from the VMI's status which links of the new pod NIC exist. */
function buildReportedSwap({ swap, reported }: IfaceFacts): Pick<IfaceFacts, "swap"> {
  if (swap === undefined) return {};
  const hasBridge = reported?.otherPodInterfaceNames?.includes(swap.podInterfaceName) === true;
  const hasPodInterface = reported?.hotplug?.phase === "Switching";
  return { swap: { ...swap, links: { ...swap.links, hasPodInterface, hasBridge } } };
}

/** Reasons of a ready NIC that remain in the status while libvirt does not respond. */
const READY_REASONS: readonly (string | undefined)[] = [
  "MtuDiffers",
  "MtuReduced",
  "NetworkChanged",
  "AddressNotClaimed",
] satisfies readonly Reason[];

function withReadyReason(status: IfaceStatus, previous: IfaceStatus | undefined): IfaceStatus {
  const { hotplug } = previous ?? {};
  const isRetained = status.hotplug?.phase === "Ready" && READY_REASONS.includes(hotplug?.reason);
  return isRetained && hotplug !== undefined ? { ...status, hotplug } : status;
}

function withReportedState(facts: IfaceFacts): IfaceFacts {
  const phase = facts.reported?.hotplug?.phase;
  const isWired = WIRED_PHASES.has(phase);
  const isPresent = isWired || phase === "Unwiring";
  const device = buildReportedDevice(facts.reported);
  return {
    ...facts,
    links: {
      ...NO_LINKS,
      hasPodInterface: isPresent,
      hasBridge: isPresent,
      hasTap: isPresent,
      isWired,
      isTapOpen: phase !== "Attaching",
    },
    ...(device === undefined ? {} : { device }),
    ...buildReportedSwap(facts),
  };
}

function withAddresses(status: IfaceStatus, reported: IfaceStatus | undefined): IfaceStatus {
  if (reported?.addressInfo === undefined) return status;
  const { ipAddress, ipAddresses, addressInfo } = reported;
  return {
    ...status,
    ...(ipAddress === undefined ? {} : { ipAddress }),
    ...(ipAddresses === undefined ? {} : { ipAddresses }),
    addressInfo,
  };
}

export interface UnreachableContext {
  readonly now: string;
  readonly bindings: BindingRegistry;
}

export function buildUnreachableIfaces(
  vmi: VirtualMachineInstance,
  error: unknown,
  { now, bindings }: UnreachableContext,
): readonly IfaceStatus[] {
  const reason: Reason = reasonOf(error) ?? "LauncherUnreachable";
  const message = messageWithAdvice(error);
  const emptyObservation = { links: [], nics: [], guest: EMPTY_GUEST_VIEW, bindings };
  const learned = listReportedLearned(vmi.status?.interfaces ?? []);
  const sources = { vmi, ...emptyObservation, learned, isLauncherUnreachable: true as const };
  const ifaces = collectIfaceFacts(sources).map(withReportedState);
  const findBlockedReason = ({ reported }: IfaceFacts): BlockedReason => ({
    reason,
    message,
    attempts: reported?.hotplug?.attempts ?? 0,
  });
  const blocked = ifaces.filter((facts) => NODE_PHASES.has(decidePhase(facts)));
  const blockedReasons = Object.fromEntries(
    blocked.map((facts) => [facts.name, findBlockedReason(facts)]),
  );
  const portless = findIfacesWithoutPort(vmi, vmi.spec, bindings);
  const reported = vmi.status?.interfaces ?? [];
  const statuses = buildIfaceStatuses({ ifaces, blockedReasons, portless, now });
  return [
    ...statuses.map((status) => {
      const previous = findByName(reported, status.name ?? "");
      return withAddresses(withReadyReason(status, previous), previous);
    }),
    ...reported.filter(({ name }) => name === undefined),
  ];
}
