// SPDX-License-Identifier: Apache-2.0
// Why an iface does not go on, in stable words.
import type { IfaceStatus, VirtualMachineInstance } from "@patchbay/api";
import { isAppError, messageOf } from "../errors/app-error.ts";
import { sayNoPort } from "../iface/ports.ts";
import { findByName, ifacesOf } from "../iface/specs.ts";
import type { NoPlace } from "../plan/live-places.ts";
import type { NodeAction } from "../plan/node-vm.ts";

/** Why an iface does not go on. */
export interface Hindrance {
  /** Stable, in CamelCase; listed in docs/reference/phases.md. */
  readonly reason: string;
  readonly message: string;
  /** How often it was tried in this phase. */
  readonly attempts: number;
}

const REASONS: Partial<Record<NodeAction["kind"], string>> = {
  wireTap: "WiringFailed",
  unwireTap: "UnwiringFailed",
  attachDevice: "AttachFailed",
  detachDevice: "DetachFailed",
};

function reasonOf(action: NodeAction, error: unknown): string {
  if (isAppError(error, "LIBVIRT_NO_FREE_PORT")) return "NoFreePciePort";
  if (isAppError(error, "LIBVIRT_ADDRESS_REFUSED")) return "PciAddressInUse";
  if (isAppError(error, "PODNET_NETWORK_CANNOT_CARRY_VM")) return "NetworkCannotCarryVm";
  if (isAppError(error, "PODNET_LINK_MISSING")) return "PodInterfaceMissing";
  return REASONS[action.kind] ?? "Failed";
}

/** How often the iface was tried so far in its phase. */
export function attemptsOf(reported: IfaceStatus | undefined): number {
  return reported?.hotplug?.attempts ?? 0;
}

/** The hindrance of a step that failed. */
export function hindranceOfFailure(
  action: NodeAction,
  error: unknown,
  reported: IfaceStatus | undefined,
): Hindrance {
  return {
    reason: reasonOf(action, error),
    message: messageOf(error),
    attempts: attemptsOf(reported) + 1,
  };
}

function sayNoPlace(reason: NoPlace, vmi: VirtualMachineInstance, name: string): string {
  const iface = findByName(ifacesOf(vmi.spec), name);
  switch (reason) {
    case "NoFreePciePort":
      return sayNoPort(vmi);
    case "PciAddressInUse":
      return `the PCI address ${iface?.pciAddress ?? ""} is in use or is none of a port; choose another, or none`;
    case "ModelNeedsIoPorts":
      return `model ${iface?.model ?? ""} needs I/O ports, which the ports for hot-plug do not have; use virtio, or restart the VM`;
  }
}

/** The hindrance of an iface that waits; `asked` is how often the guest was asked. */
export function hindranceOfWait(
  action: Extract<NodeAction, { kind: "wait" }>,
  asked: number,
  vmi: VirtualMachineInstance,
): Hindrance {
  const { reason } = action;
  if (reason !== "GuestRefused") {
    return { reason, message: sayNoPlace(reason, vmi, action.iface), attempts: 0 };
  }
  return asked > 1
    ? {
        reason: "GuestRefused",
        message: `the guest has not let go of the device, asked ${String(asked)} times`,
        attempts: asked,
      }
    : {
        reason: "WaitingForGuest",
        message: "the guest was asked to let go of the device",
        attempts: asked,
      };
}
