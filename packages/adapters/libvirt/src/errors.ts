// SPDX-License-Identifier: Apache-2.0
// Which error code is an error of libvirt? One table by number; one function reads text, where numbers do not tell.
import { AppError, type Details, type ErrorCode } from "@patchbay/core";
import type { NativeError } from "./native.ts";

/** Source: libvirt virErrorNumber; the test compiles them against virterror.h. */
export const VIR_ERR = {
  INTERNAL_ERROR: 1,
  OPERATION_FAILED: 9,
  XML_ERROR: 27,
  OPERATION_DENIED: 29,
  SYSTEM_ERROR: 38,
  NO_DOMAIN: 42,
  OPERATION_INVALID: 55,
  CONFIG_UNSUPPORTED: 67,
  OPERATION_TIMEOUT: 68,
  ARGUMENT_UNSUPPORTED: 74,
  OPERATION_ABORTED: 78,
  OPERATION_UNSUPPORTED: 84,
  AGENT_UNRESPONSIVE: 86,
  AGENT_UNSYNCED: 97,
  DEVICE_MISSING: 99,
} as const;

/** Source: libvirt virErrorDomain; the test compiles them against virterror.h. */
export const VIR_FROM = { RPC: 7, QEMU: 10, DOMAIN: 20 } as const;

const BY_NUMBER: ReadonlyMap<number, ErrorCode> = new Map<number, ErrorCode>([
  [VIR_ERR.NO_DOMAIN, "LIBVIRT_NO_DOMAIN"],
  [VIR_ERR.DEVICE_MISSING, "LIBVIRT_DEVICE_MISSING"],
  [VIR_ERR.AGENT_UNRESPONSIVE, "LIBVIRT_AGENT_UNAVAILABLE"],
  [VIR_ERR.AGENT_UNSYNCED, "LIBVIRT_AGENT_UNAVAILABLE"],
  // Another job of the domain holds its lock: a save, or a call that waits for the guest.
  [VIR_ERR.OPERATION_TIMEOUT, "LIBVIRT_BUSY"],
  [VIR_ERR.OPERATION_ABORTED, "LIBVIRT_JOB_ABORTED"],
  [VIR_ERR.OPERATION_DENIED, "LIBVIRT_UNSUPPORTED"],
  [VIR_ERR.ARGUMENT_UNSUPPORTED, "LIBVIRT_UNSUPPORTED"],
  [VIR_ERR.OPERATION_UNSUPPORTED, "LIBVIRT_UNSUPPORTED"],
]);

/** What was asked; becomes the details of the error. */
export interface FailedCall {
  readonly call: string;
  readonly domain?: string;
  readonly device?: string;
}

/** The call that has the daemon connect to another one. */
export const MIGRATE = "virDomainMigrateToURI3";

/** Translates an error of a call on an open connection. */
export function toAppError(error: NativeError, failed: FailedCall): AppError {
  const details: Details = {
    ...failed,
    message: error.message,
    number: error.number,
    domainNumber: error.domain,
  };
  return new AppError(codeFor(error, failed), details);
}

function codeFor(error: NativeError, failed: FailedCall): ErrorCode {
  if (isConnectionLost(error)) {
    // Of this call libvirt's daemon says the same where its own connection to another one breaks.
    return failed.call === MIGRATE ? "LIBVIRT_PEER_LOST" : "LIBVIRT_CONNECTION_LOST";
  }
  return codeByText(error) ?? BY_NUMBER.get(error.number) ?? "LIBVIRT_REFUSED";
}

/** The client's own errors when its daemon is gone or silent. */
function isConnectionLost(error: NativeError): boolean {
  if (error.domain !== VIR_FROM.RPC) return false;
  return error.number === VIR_ERR.INTERNAL_ERROR || error.number === VIR_ERR.SYSTEM_ERROR;
}

/** What a text of libvirt means, if it comes with one of these numbers. */
interface TextRule {
  readonly numbers: readonly number[];
  readonly text: RegExp;
  readonly code: ErrorCode;
}

/** Errors whose numbers are too general, by the text of libvirt 9.0 and QEMU 7.2; captured samples are in the test. */
const BY_TEXT: readonly TextRule[] = [
  {
    numbers: [VIR_ERR.INTERNAL_ERROR],
    text: /no device found with alias /,
    code: "LIBVIRT_DEVICE_MISSING",
  },
  {
    numbers: [VIR_ERR.INTERNAL_ERROR],
    text: /No more available PCI slots/,
    code: "LIBVIRT_NO_FREE_PORT",
  },
  {
    numbers: [VIR_ERR.INTERNAL_ERROR],
    text: /is already in the process of unplug|Hot-unplug failed: guest is busy/,
    code: "LIBVIRT_UNPLUG_PENDING",
  },
  // The lock is held by a call of the migration protocol. Source: libvirt qemuDomainObjBeginJobInternal.
  {
    numbers: [VIR_ERR.OPERATION_TIMEOUT],
    text: /state change lock \(held by [^)]*Migrat/,
    code: "LIBVIRT_MIGRATING",
  },
  {
    numbers: [VIR_ERR.CONFIG_UNSUPPORTED],
    text: /non unique alias detected/,
    code: "LIBVIRT_DEVICE_EXISTS",
  },
  {
    numbers: [VIR_ERR.XML_ERROR, VIR_ERR.INTERNAL_ERROR],
    text: /PCI (device )?address|PCI controller|PCI buses|PCI slot|PCI: slot/i,
    code: "LIBVIRT_ADDRESS_REFUSED",
  },
  {
    numbers: [VIR_ERR.SYSTEM_ERROR, VIR_ERR.INTERNAL_ERROR],
    text: /Unable to create tap device|specified dev doesn't exist/,
    code: "LIBVIRT_TAP_REFUSED",
  },
  {
    numbers: [VIR_ERR.OPERATION_INVALID],
    text: /domain is not running|transient domains do not have any persistent config/,
    code: "LIBVIRT_NOT_RUNNING",
  },
];

function codeByText(error: NativeError): ErrorCode | undefined {
  return BY_TEXT.find(
    ({ numbers, text }) => numbers.includes(error.number) && text.test(error.message),
  )?.code;
}
