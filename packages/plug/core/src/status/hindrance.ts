// SPDX-License-Identifier: Apache-2.0
// Why an iface does not go on, in stable words.
import type { IfacePhase, IfaceStatus, VirtualMachineInstance, VmiStatus } from "@patchbay/api";
import { reasonOf, sayWithAdvice } from "../reasons/of-error.ts";
import type { Reason } from "../reasons/table.ts";
import {
  addressInUse,
  BACKEND_REPLACED,
  guestKeeps,
  INTERRUPT_VECTORS,
  MEMORY_NOT_SHARED,
  modelNeedsIoPorts,
  noFreePort,
  POD_INTERFACE_MISSING,
  staysOn,
  TAP_LOST,
  TAP_REPLACED,
  type Told,
  WAITING_FOR_MIGRATION,
} from "../reasons/words.ts";
import { findByName, ifacesOf } from "../spec/nics.ts";
import type { IfaceFacts } from "../iface/facts.ts";
import type { SocketReason } from "../iface/links/vhost-socket.ts";
import type { NoPlace } from "../pcie/live-places.ts";
import type { NodeAction, NodeVmFacts, WaitReason } from "../plan/node/node-vm.ts";
import type { VhostUserWait } from "../plan/node/nics.ts";

/** Why an iface does not go on. */
export interface Hindrance {
  /** Stable, in CamelCase; listed in docs/reference/reasons.md. */
  readonly reason: string;
  readonly message: string;
  /** How often it was tried in this phase. */
  readonly attempts: number;
}

/** A step on one iface that can fail. */
type Step = Exclude<Extract<NodeAction, { iface: string }>["kind"], "wait"> | "serveAddresses";

/** The phase in which a step is taken, and the reason of a failure that has no word of its own. */
const STEPS: Readonly<Record<Step, { readonly phase: IfacePhase; readonly reason: Reason }>> = {
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
};

/** How often the iface was tried so far in that phase. */
function attemptsIn(phase: IfacePhase, reported: IfaceStatus | undefined): number {
  const hotplug = reported?.hotplug;
  return hotplug?.phase === phase ? (hotplug.attempts ?? 0) : 0;
}

/** The hindrance of a step that failed. */
export function hindranceOfFailure(
  step: Step,
  error: unknown,
  reported: IfaceStatus | undefined,
): Hindrance {
  const { phase, reason } = STEPS[step];
  const where = step === "swapNetwork" ? [staysOn(undefined)] : [];
  return {
    reason: reasonOf(error) ?? reason,
    message: [sayWithAdvice(error), ...where].join("; "),
    attempts: attemptsIn(phase, reported) + 1,
  };
}

/**
 * Why the guest of a VMI is not started or cannot be worked with; `step` is the reason when the error has none of its
 * own.
 */
export function guestHindranceOf(
  { status }: VirtualMachineInstance,
  step: "GuestNotStarted" | "LauncherUnreachable",
  error: unknown,
): Hindrance {
  const reason = reasonOf(error) ?? step;
  const before = status?.hindrance?.reason === reason ? status.hindrance.attempts : 0;
  return { reason, message: sayWithAdvice(error), attempts: before + 1 };
}

/** The field of the status for what holds up a VMI as a whole; `now` is RFC 3339. */
export function guestHindranceField(
  { status }: VirtualMachineInstance,
  hindrance: Hindrance | undefined,
  now: string,
): Pick<VmiStatus, "hindrance"> {
  if (hindrance === undefined) return {};
  const before = status?.hindrance;
  const since = before?.reason === hindrance.reason ? before.since : now;
  return { hindrance: { ...hindrance, since } };
}

function noPlaceFor(reason: NoPlace, vmi: VirtualMachineInstance, name: string): Told {
  const iface = findByName(ifacesOf(vmi.spec), name);
  switch (reason) {
    case "NoFreePciePort":
      return noFreePort(vmi);
    case "PciAddressInUse":
      return addressInUse(iface?.pciAddress ?? "");
    case "ModelNeedsIoPorts":
      return modelNeedsIoPorts(iface?.model ?? "");
  }
}

/** How often a guest was asked before this process was started, as reported. */
export function requestsReported(reported: IfaceStatus | undefined): number {
  const reason = reported?.hotplug?.reason;
  if (reason === "TapReplaced" || reason === "BackendReplaced")
    return attemptsIn("Attaching", reported);
  return reason === "WaitingForGuest" || reason === "GuestRefused"
    ? attemptsIn("Detaching", reported)
    : 0;
}

/** Why a guest that was asked still has the device, and since when it is to let go. */
function keptHindrance(iface: string, { vmi, domain, asked }: WaitFacts): Hindrance {
  const { count: attempts, isRefused } = asked[iface] ?? { count: 0, isRefused: false };
  const hotplug = findByName(vmi.status?.interfaces, iface)?.hotplug;
  const since = hotplug?.phase === "Detaching" ? hotplug.since : undefined;
  const isPaused = domain?.isPaused === true;
  return { ...guestKeeps({ count: attempts, isRefused }, { isPaused, since }), attempts };
}

/** What the words of a wait rest on. */
type WaitFacts = Pick<NodeVmFacts, "vmi" | "domain" | "asked" | "ifaces">;

type SayOfVhostUser = (iface: IfaceFacts | undefined) => Told;

/** The problem that was found is the message. */
const saySocket =
  (reason: SocketReason): SayOfVhostUser =>
  (iface) => ({ reason, message: iface?.links.socketProblem?.message ?? "" });

const OF_VHOST_USER: Readonly<Record<VhostUserWait, SayOfVhostUser>> = {
  BackendMissing: saySocket("BackendMissing"),
  BackendRefused: saySocket("BackendRefused"),
  PortSecurityNotKept: saySocket("PortSecurityNotKept"),
  BackendReplaced: () => BACKEND_REPLACED,
  MemoryNotShared: () => MEMORY_NOT_SHARED,
  InterruptVectors: () => INTERRUPT_VECTORS,
};

function isOfVhostUser(reason: WaitReason): reason is VhostUserWait {
  return Object.hasOwn(OF_VHOST_USER, reason);
}

/** How often its guest was asked to let go of it. */
function attemptsAsked(iface: string, { asked }: WaitFacts): number {
  return asked[iface]?.count ?? 0;
}

/** The hindrance of an iface that waits. */
export function hindranceOfWait(
  { iface, reason }: Extract<NodeAction, { kind: "wait" }>,
  facts: WaitFacts,
): Hindrance {
  const attempts = attemptsAsked(iface, facts);
  if (isOfVhostUser(reason)) {
    return { ...OF_VHOST_USER[reason](findByName(facts.ifaces, iface)), attempts };
  }
  switch (reason) {
    case "GuestRefused":
      return keptHindrance(iface, facts);
    case "TapReplaced":
      return { ...TAP_REPLACED, attempts };
    case "TapLost":
      return { ...TAP_LOST, attempts: 0 };
    case "WaitingForMigration":
      return { ...WAITING_FOR_MIGRATION, attempts: 0 };
    case "PodInterfaceMissing":
      return { ...POD_INTERFACE_MISSING, attempts: 0 };
    case "NoFreePciePort":
    case "PciAddressInUse":
    case "ModelNeedsIoPorts":
      return { ...noPlaceFor(reason, facts.vmi, iface), attempts: 0 };
  }
}
