// SPDX-License-Identifier: Apache-2.0
// Which error code is an error of libvirt? One table by number; one function reads text, where numbers do not tell.
import { AppError, type Details, type ErrorCode } from "@patchbay/core";
import type { NativeError } from "./native.ts";

/** Source: libvirt virErrorNumber; the test compiles them against virterror.h. */
export const VIR_ERR = {
  INTERNAL_ERROR: 1,
  OPERATION_FAILED: 9,
  SYSTEM_ERROR: 38,
  NO_DOMAIN: 42,
  OPERATION_TIMEOUT: 68,
  DEVICE_MISSING: 99,
} as const;

/** Source: libvirt virErrorDomain; the test compiles them against virterror.h. */
export const VIR_FROM = { RPC: 7, QEMU: 10, DOMAIN: 20 } as const;

const BY_NUMBER: ReadonlyMap<number, ErrorCode> = new Map<number, ErrorCode>([
  [VIR_ERR.NO_DOMAIN, "LIBVIRT_NO_DOMAIN"],
  [VIR_ERR.DEVICE_MISSING, "LIBVIRT_DEVICE_MISSING"],
  // Another job of the domain holds its lock: a migration, or a call that waits for the guest.
  [VIR_ERR.OPERATION_TIMEOUT, "LIBVIRT_BUSY"],
]);

/** What was asked; becomes the details of the error. */
export interface FailedCall {
  readonly call: string;
  readonly domain?: string;
  readonly device?: string;
}

/** Translates an error of a call on an open connection. */
export function toAppError(error: NativeError, failed: FailedCall): AppError {
  const details: Details = {
    ...failed,
    message: error.message,
    number: error.number,
    domainNumber: error.domain,
  };
  return new AppError(codeFor(error), details);
}

function codeFor(error: NativeError): ErrorCode {
  if (isConnectionLost(error)) return "LIBVIRT_CONNECTION_LOST";
  return BY_NUMBER.get(error.number) ?? codeByText(error) ?? "LIBVIRT_REFUSED";
}

/** The client's own errors when its daemon is gone or silent. */
function isConnectionLost(error: NativeError): boolean {
  if (error.domain !== VIR_FROM.RPC) return false;
  return error.number === VIR_ERR.INTERNAL_ERROR || error.number === VIR_ERR.SYSTEM_ERROR;
}

/** Errors whose numbers are too general, by the text of libvirt 9.0 and QEMU 7.2; captured samples are in the test. */
const BY_TEXT: readonly (readonly [RegExp, ErrorCode])[] = [
  [/no device found with alias /, "LIBVIRT_DEVICE_MISSING"],
  [/No more available PCI slots/, "LIBVIRT_NO_FREE_PORT"],
  [/is already in the process of unplug/, "LIBVIRT_BUSY"],
  [/Hot-unplug failed: guest is busy/, "LIBVIRT_BUSY"],
];

function codeByText(error: NativeError): ErrorCode | undefined {
  if (error.number !== VIR_ERR.INTERNAL_ERROR) return undefined;
  return BY_TEXT.find(([text]) => text.test(error.message))?.[1];
}
