// SPDX-License-Identifier: Apache-2.0
// Why an iface does not go on, in stable words.
import type { IfacePhase, IfaceStatus, VirtualMachineInstance, VmiStatus } from "@patchbay/api";
import { isAppError, messageOf } from "../errors/app-error.ts";
import { sayModelNeedsIoPorts, sayNoPort } from "../pcie/ports.ts";
import { findByName, ifacesOf } from "../spec/nics.ts";
import type { NoPlace } from "../pcie/live-places.ts";
import type { NodeAction, NodeVmFacts } from "../plan/node/node-vm.ts";
import { findLibvirtReason } from "./libvirt-reasons.ts";

/** Why an iface does not go on. */
export interface Hindrance {
  /** Stable, in CamelCase; listed in docs/reference/phases.md. */
  readonly reason: string;
  readonly message: string;
  /** How often it was tried in this phase. */
  readonly attempts: number;
}

/** A step on one iface that can fail. */
type Step = Exclude<Extract<NodeAction, { iface: string }>["kind"], "wait">;

/** The phase in which a step is taken, and the reason of a failure that has no word of its own. */
const STEPS: Readonly<Record<Step, { readonly phase: IfacePhase; readonly reason: string }>> = {
  wireTap: { phase: "Wiring", reason: "WiringFailed" },
  attachDevice: { phase: "Attaching", reason: "AttachFailed" },
  detachDevice: { phase: "Detaching", reason: "DetachFailed" },
  unwireTap: { phase: "Unwiring", reason: "UnwiringFailed" },
  setLink: { phase: "Ready", reason: "LinkStateFailed" },
};

/** How often the iface was tried so far in that phase. */
function attemptsIn(phase: IfacePhase, reported: IfaceStatus | undefined): number {
  const hotplug = reported?.hotplug;
  return hotplug?.phase === phase ? (hotplug.attempts ?? 0) : 0;
}

function podReasonOf(error: unknown): string | undefined {
  if (isAppError(error, "PODNET_NETWORK_CANNOT_CARRY_VM")) return "NetworkCannotCarryVm";
  if (isAppError(error, "PODNET_LINK_MISSING")) return "PodInterfaceMissing";
  return undefined;
}

/** The hindrance of a step that failed. */
export function hindranceOfFailure(
  step: Step,
  error: unknown,
  reported: IfaceStatus | undefined,
): Hindrance {
  const { phase, reason } = STEPS[step];
  const libvirt = findLibvirtReason(error);
  return {
    reason: libvirt?.reason ?? podReasonOf(error) ?? reason,
    message: [messageOf(error), libvirt?.advice ?? []].flat().join("; "),
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
  const libvirt = findLibvirtReason(error);
  const reason = libvirt?.reason ?? step;
  const before = status?.hindrance?.reason === reason ? status.hindrance.attempts : 0;
  const message = [messageOf(error), libvirt?.advice ?? []].flat().join("; ");
  return { reason, message, attempts: before + 1 };
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

function sayNoPlace(reason: NoPlace, vmi: VirtualMachineInstance, name: string): string {
  const iface = findByName(ifacesOf(vmi.spec), name);
  switch (reason) {
    case "NoFreePciePort":
      return sayNoPort(vmi);
    case "PciAddressInUse":
      return `the PCI address ${iface?.pciAddress ?? ""} is in use or is none of a port; choose another, or none`;
    case "ModelNeedsIoPorts":
      return sayModelNeedsIoPorts(iface?.model ?? "");
  }
}

/** How often a guest was asked before this process was started, as reported. */
export function requestsReported(reported: IfaceStatus | undefined): number {
  const reason = reported?.hotplug?.reason;
  if (reason === "TapReplaced") return attemptsIn("Attaching", reported);
  return reason === "WaitingForGuest" || reason === "GuestRefused"
    ? attemptsIn("Detaching", reported)
    : 0;
}

/** One request may be lost in firmware, and the next needs a moment; who lets both go by keeps the device. */
const REQUESTS_MAX = 2;

/** A guest that is paused cannot answer; one that was asked a moment ago may be about to. */
function guestHindrance(asked: number, isPaused: boolean): Hindrance {
  if (isPaused) {
    const message = "the guest is paused; it lets go of the device when it is resumed";
    return { reason: "WaitingForGuest", message, attempts: asked };
  }
  if (asked <= REQUESTS_MAX) {
    const message = "the guest was asked to let go of the device";
    return { reason: "WaitingForGuest", message, attempts: asked };
  }
  return {
    reason: "GuestRefused",
    message: `the guest has not let go of the device, asked ${String(asked)} times, and is asked again every 10 s; if it hangs or has crashed, reset it or restart the VM`,
    attempts: asked,
  };
}

const TAP_REPLACED =
  "the tap was deleted under the guest's device and made anew, which QEMU cannot open again; the guest was asked to let go of the device, and gets it again then";

/** The hindrance of an iface that waits; `asked` is how often the guest was asked. */
export function hindranceOfWait(
  action: Extract<NodeAction, { kind: "wait" }>,
  asked: number,
  facts: Pick<NodeVmFacts, "vmi" | "domain">,
): Hindrance {
  const { reason } = action;
  switch (reason) {
    case "GuestRefused":
      return guestHindrance(asked, facts.domain?.isPaused === true);
    case "TapReplaced":
      return { reason, message: TAP_REPLACED, attempts: asked };
    case "NoFreePciePort":
    case "PciAddressInUse":
    case "ModelNeedsIoPorts":
      return { reason, message: sayNoPlace(reason, facts.vmi, action.iface), attempts: 0 };
  }
}
