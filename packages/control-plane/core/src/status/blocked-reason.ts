// SPDX-License-Identifier: Apache-2.0
import type { IfacePhase, IfaceStatus, VirtualMachineInstance, VmiStatus } from "@patchbay/api";
import { reasonOf, messageWithAdvice } from "../reasons/of-error.ts";
import type { Reason } from "../reasons/table.ts";
import {
  pciAddressInUse,
  BACKEND_REPLACED,
  unplugPending,
  INTERRUPT_VECTORS,
  MEMORY_NOT_SHARED,
  modelNeedsIoPorts,
  noFreePortMessage,
  POD_INTERFACE_MISSING,
  POLICY_NOT_ENFORCED,
  staysOnNetwork,
  TAP_LOST,
  TAP_REPLACED,
  type ReasonMessage,
  WAITING_FOR_MIGRATION,
} from "../reasons/messages.ts";
import { findByName, ifacesOf } from "../nics/nics.ts";
import type { IfaceFacts } from "../nics/facts.ts";
import type { SocketReason } from "../nics/links/vhost-socket.ts";
import type { PlacementProblem } from "../nics/pcie/ports.ts";
import type { NodeAction, NodeVmFacts, WaitReason } from "../vm/node/node-vm.ts";
import type { VhostUserBlock } from "../nics/node-plan.ts";

export interface BlockedReason {
  /** Stable identifier in CamelCase, listed in docs/reference/reasons.md. */
  readonly reason: string;
  readonly message: string;
  readonly attempts: number;
}

type Step = Exclude<Extract<NodeAction, { iface: string }>["kind"], "wait"> | "serveAddresses";

const STEP_DETAILS: Readonly<
  Record<Step, { readonly phase: IfacePhase; readonly reason: Reason }>
> = {
  rememberAddresses: { phase: "Wiring", reason: "WiringFailed" },
  linkSocket: { phase: "Wiring", reason: "WiringFailed" },
  wireTap: { phase: "Wiring", reason: "WiringFailed" },
  serveAddresses: { phase: "Ready", reason: "AddressesNotServed" },
  attachDevice: { phase: "Attaching", reason: "AttachFailed" },
  detachDevice: { phase: "Detaching", reason: "DetachFailed" },
  unwireTap: { phase: "Unwiring", reason: "UnwiringFailed" },
  setLink: { phase: "Ready", reason: "LinkStateFailed" },
  swapNetwork: { phase: "Switching", reason: "SwitchFailed" },
  removeBridge: { phase: "Ready", reason: "UnwiringFailed" },
  applyPolicy: { phase: "Ready", reason: "PolicyFailed" },
};

function countAttempts(phase: IfacePhase, ifaceStatus: IfaceStatus | undefined): number {
  const hotplug = ifaceStatus?.hotplug;
  return hotplug?.phase === phase ? (hotplug.attempts ?? 0) : 0;
}

export function blockedReasonOfFailure(
  step: Step,
  error: unknown,
  ifaceStatus: IfaceStatus | undefined,
): BlockedReason {
  const { phase, reason } = STEP_DETAILS[step];
  const where = step === "swapNetwork" ? [staysOnNetwork(undefined)] : [];
  return {
    reason: reasonOf(error) ?? reason,
    message: [messageWithAdvice(error), ...where].join("; "),
    attempts: countAttempts(phase, ifaceStatus) + 1,
  };
}

/** Returns why a guest does not start or cannot be managed. `defaultReason` applies to an error without a reason. */
export function guestBlockedReason(
  { status }: VirtualMachineInstance,
  defaultReason: "GuestNotStarted" | "LauncherUnreachable",
  error: unknown,
): BlockedReason {
  const reason = reasonOf(error) ?? defaultReason;
  const previousAttempts =
    status?.blockedReason?.reason === reason ? status.blockedReason.attempts : 0;
  return { reason, message: messageWithAdvice(error), attempts: previousAttempts + 1 };
}

/** Builds the status field that reports why the whole VMI is blocked. `now` is the current time in RFC 3339. */
export function guestBlockedField(
  { status }: VirtualMachineInstance,
  blockedReason: BlockedReason | undefined,
  now: string,
): Pick<VmiStatus, "blockedReason"> {
  if (blockedReason === undefined) return {};
  const oldField = status?.blockedReason;
  const since = oldField?.reason === blockedReason.reason ? oldField.since : now;
  return { blockedReason: { ...blockedReason, since } };
}

function describeNoPlace(
  reason: PlacementProblem,
  vmi: VirtualMachineInstance,
  name: string,
): ReasonMessage {
  const iface = findByName(ifacesOf(vmi.spec), name);
  switch (reason) {
    case "NoFreePciePort":
      return noFreePortMessage(vmi);
    case "PciAddressInUse":
      return pciAddressInUse(iface?.pciAddress ?? "");
    case "ModelNeedsIoPorts":
      return modelNeedsIoPorts(iface?.model ?? "");
  }
}

/** Returns the number of unplug requests in the status, so that a restarted virt-handler continues to count. */
export function reportedUnplugRequests(ifaceStatus: IfaceStatus | undefined): number {
  const reason = ifaceStatus?.hotplug?.reason;
  if (reason === "TapReplaced" || reason === "BackendReplaced")
    return countAttempts("Attaching", ifaceStatus);
  return reason === "WaitingForGuest" || reason === "GuestRefused"
    ? countAttempts("Detaching", ifaceStatus)
    : 0;
}

function findUnplugBlockedReason(
  iface: string,
  { vmi, domain, unplugRequests }: WaitFacts,
): BlockedReason {
  const { count: attempts, isRefused } = unplugRequests[iface] ?? { count: 0, isRefused: false };
  const hotplug = findByName(vmi.status?.interfaces, iface)?.hotplug;
  const since = hotplug?.phase === "Detaching" ? hotplug.since : undefined;
  const isPaused = domain?.isPaused === true;
  return { ...unplugPending({ count: attempts, isRefused }, { isPaused, since }), attempts };
}

type WaitFacts = Pick<NodeVmFacts, "vmi" | "domain" | "unplugRequests" | "ifaces">;

type VhostUserMessage = (iface: IfaceFacts | undefined) => ReasonMessage;

const socketMessage =
  (reason: SocketReason): VhostUserMessage =>
  (iface) => ({ reason, message: iface?.links.socketProblem?.message ?? "" });

const VHOST_USER_MESSAGES: Readonly<Record<VhostUserBlock, VhostUserMessage>> = {
  BackendMissing: socketMessage("BackendMissing"),
  BackendRefused: socketMessage("BackendRefused"),
  PortSecurityNotKept: socketMessage("PortSecurityNotKept"),
  BackendReplaced: () => BACKEND_REPLACED,
  MemoryNotShared: () => MEMORY_NOT_SHARED,
  InterruptVectors: () => INTERRUPT_VECTORS,
};

function isVhostUserReason(reason: WaitReason): reason is VhostUserBlock {
  return Object.hasOwn(VHOST_USER_MESSAGES, reason);
}

function countUnplugRequests(iface: string, { unplugRequests }: WaitFacts): number {
  return unplugRequests[iface]?.count ?? 0;
}

export function blockedReasonOfWait(
  { iface, reason }: Extract<NodeAction, { kind: "wait" }>,
  facts: WaitFacts,
): BlockedReason {
  const attempts = countUnplugRequests(iface, facts);
  if (isVhostUserReason(reason)) {
    return { ...VHOST_USER_MESSAGES[reason](findByName(facts.ifaces, iface)), attempts };
  }
  switch (reason) {
    case "GuestRefused":
      return findUnplugBlockedReason(iface, facts);
    case "TapReplaced":
      return { ...TAP_REPLACED, attempts };
    case "TapLost":
      return { ...TAP_LOST, attempts: 0 };
    case "WaitingForMigration":
      return { ...WAITING_FOR_MIGRATION, attempts: 0 };
    case "PodInterfaceMissing":
      return { ...POD_INTERFACE_MISSING, attempts: 0 };
    case "PolicyNotEnforced":
      return { ...POLICY_NOT_ENFORCED, attempts: 0 };
    case "NoFreePciePort":
    case "PciAddressInUse":
    case "ModelNeedsIoPorts":
      return { ...describeNoPlace(reason, facts.vmi, iface), attempts: 0 };
  }
}
