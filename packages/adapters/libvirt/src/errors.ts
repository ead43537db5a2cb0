// SPDX-License-Identifier: Apache-2.0
// Maps libvirt errors to error codes by their number, or by their message if the number is ambiguous.
import { AppError, type Details, type ErrorCode } from "@patchbay/base";
import type { NativeError } from "./protocol.ts";

/** Error numbers. Source: libvirt virErrorNumber; a test compares the numbers with virterror.h */
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

/** Error domains (parts of libvirt). Source: libvirt virErrorDomain; a test compares the numbers with virterror.h */
export const VIR_FROM = { RPC: 7, QEMU: 10, DOMAIN: 20 } as const;

const CODE_BY_NUMBER: ReadonlyMap<number, ErrorCode> = new Map<number, ErrorCode>([
  [VIR_ERR.NO_DOMAIN, "LIBVIRT_NO_DOMAIN"],
  [VIR_ERR.DEVICE_MISSING, "LIBVIRT_DEVICE_MISSING"],
  [VIR_ERR.AGENT_UNRESPONSIVE, "LIBVIRT_AGENT_UNAVAILABLE"],
  [VIR_ERR.AGENT_UNSYNCED, "LIBVIRT_AGENT_UNAVAILABLE"],
  // Another job has locked the domain, for example a save or a call that waits for the guest.
  [VIR_ERR.OPERATION_TIMEOUT, "LIBVIRT_BUSY"],
  [VIR_ERR.OPERATION_ABORTED, "LIBVIRT_JOB_ABORTED"],
  [VIR_ERR.OPERATION_DENIED, "LIBVIRT_UNSUPPORTED"],
  [VIR_ERR.ARGUMENT_UNSUPPORTED, "LIBVIRT_UNSUPPORTED"],
  [VIR_ERR.OPERATION_UNSUPPORTED, "LIBVIRT_UNSUPPORTED"],
]);

export interface FailedCall {
  readonly call: string;
  readonly domain?: string;
  readonly device?: string;
}

export const MIGRATE_CALL = "virDomainMigrateToURI3";

export function toAppError(error: NativeError, failed: FailedCall): AppError {
  const details: Details = {
    ...failed,
    message: error.message,
    number: error.number,
    domainNumber: error.domain,
  };
  return new AppError(findCode(error, failed), details);
}

function findCode(error: NativeError, failed: FailedCall): ErrorCode {
  if (isConnectionLost(error)) {
    // During a migration, this error can also mean that the connection to the target's daemon broke.
    return failed.call === MIGRATE_CALL ? "LIBVIRT_PEER_LOST" : "LIBVIRT_CONNECTION_LOST";
  }
  return findCodeByText(error) ?? CODE_BY_NUMBER.get(error.number) ?? "LIBVIRT_REFUSED";
}

/** Checks for an error of libvirt's RPC client, which means that the connection to the daemon is broken. */
function isConnectionLost(error: NativeError): boolean {
  if (error.domain !== VIR_FROM.RPC) return false;
  return error.number === VIR_ERR.INTERNAL_ERROR || error.number === VIR_ERR.SYSTEM_ERROR;
}

interface TextRule {
  readonly numbers: readonly number[];
  readonly text: RegExp;
  readonly code: ErrorCode;
}

/** Rules for error numbers whose meaning depends on the message. A test contains samples from libvirt 9.0 and QEMU 7.2. */
const TEXT_RULES: readonly TextRule[] = [
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
  // A migration has locked the domain. Source: libvirt qemuDomainObjBeginJobInternal
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

function findCodeByText(error: NativeError): ErrorCode | undefined {
  return TEXT_RULES.find(
    ({ numbers, text }) => numbers.includes(error.number) && text.test(error.message),
  )?.code;
}
