// SPDX-License-Identifier: Apache-2.0
// What an error of libvirt means for an iface, in a stable word, and what a person can do about it.
import { CATALOGUE, type ErrorCode } from "../errors/catalogue.ts";
import type { LIBVIRT_ERRORS } from "../errors/catalogue/libvirt.ts";
import { isAppError } from "../errors/app-error.ts";

/** The codes that any call of libvirt can fail with. */
export type LibvirtErrorCode = keyof typeof LIBVIRT_ERRORS;

/** What is told of one code. */
export interface LibvirtReason {
  /** Absent: the word of the step, which is all that is known. */
  readonly reason?: string;
  /** What to do next. */
  readonly advice: string;
}

const IN_ITS_LOG = "libvirt's log in the launcher pod has more; restart the VM if it stays so";

/** The compiler sees to it that no code is missing. */
const REASONS: Readonly<Record<LibvirtErrorCode, LibvirtReason>> = {
  LIBVIRT_UNREACHABLE: {
    reason: "LauncherUnreachable",
    advice: "it is tried again; if it stays so, look at the launcher pod and its log",
  },
  LIBVIRT_CONNECTION_LOST: {
    reason: "LauncherUnreachable",
    advice: "it is tried again; if it stays so, look at the launcher pod and its log",
  },
  LIBVIRT_TIMED_OUT: {
    reason: "LibvirtTimedOut",
    advice: "libvirt or QEMU hangs: it is tried again; restart the VM if it stays so",
  },
  LIBVIRT_NO_DOMAIN: {
    reason: "DomainMissing",
    advice: "the guest has ended or moved to another node; it is done where the VM runs next",
  },
  LIBVIRT_NOT_RUNNING: {
    reason: "DomainNotRunning",
    advice: "it is done when the VM runs again",
  },
  LIBVIRT_DEVICE_MISSING: { advice: IN_ITS_LOG },
  LIBVIRT_NO_FREE_PORT: {
    reason: "NoFreePciePort",
    advice:
      "unplug an interface, or restart the VM with more spec.domain.devices.pcieRootPorts; a free port is used at once",
  },
  LIBVIRT_DEVICE_EXISTS: {
    reason: "DeviceNameTaken",
    advice: "remove the interface and add it under another name, or restart the VM",
  },
  LIBVIRT_ADDRESS_REFUSED: {
    reason: "PciAddressInUse",
    advice: "ask for another pciAddress, or for none",
  },
  LIBVIRT_TAP_REFUSED: {
    reason: "TapRefused",
    advice: "remove the interface and add it again, which makes the tap anew",
  },
  LIBVIRT_UNSUPPORTED: {
    reason: "DeviceUnsupported",
    advice: "change the interface (its model, for example) or restart the VM",
  },
  LIBVIRT_AGENT_UNAVAILABLE: { advice: "see whether the guest's agent runs" },
  LIBVIRT_BUSY: {
    reason: "DomainBusy",
    advice: "another operation on the VM holds it; it is tried again until that ends",
  },
  LIBVIRT_MIGRATING: {
    reason: "WaitingForMigration",
    advice: "the VM is being migrated; it is tried again until that ends",
  },
  LIBVIRT_UNPLUG_PENDING: {
    reason: "WaitingForGuest",
    advice: "the guest was asked to let go of the device and has not answered yet",
  },
  LIBVIRT_REFUSED: { advice: IN_ITS_LOG },
};

function isLibvirtCode(code: ErrorCode): code is LibvirtErrorCode {
  return code in REASONS;
}

/** What is told of an error; undefined when it is none of libvirt's. */
export function findLibvirtReason(error: unknown): LibvirtReason | undefined {
  return isAppError(error) && isLibvirtCode(error.code) ? REASONS[error.code] : undefined;
}

/** Whether another job holds the domain: no other call on it would fare better. */
export function isDomainBusy(error: unknown): boolean {
  return isAppError(error, "LIBVIRT_BUSY") || isAppError(error, "LIBVIRT_MIGRATING");
}

/** How long what only a change can mend is left alone at least, milliseconds. */
const SELDOM_MS = 60_000;

/** How long a step that failed is left alone at least, milliseconds. */
export function leastPauseMs(error: unknown): number {
  const rule = isAppError(error) ? CATALOGUE[error.code].retry : "backoff";
  return rule === "backoff" ? 0 : SELDOM_MS;
}
