// SPDX-License-Identifier: Apache-2.0
// Why an iface does not go on, in stable words.
import type { IfaceStatus } from "@patchbay/api";
import { isAppError, messageOf } from "../errors/app-error.ts";
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

/** The hindrance of an iface that waits; `asked` is how often the guest was asked. */
export function hindranceOfWait(
  action: Extract<NodeAction, { kind: "wait" }>,
  asked: number,
): Hindrance {
  if (action.reason === "NoFreePciePort") {
    return {
      reason: "NoFreePciePort",
      message:
        "no PCI slot of the VM is free; remove an interface, or restart the VM with more ports",
      attempts: 0,
    };
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
