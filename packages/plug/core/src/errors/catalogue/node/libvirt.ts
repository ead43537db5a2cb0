// SPDX-License-Identifier: Apache-2.0
// Errors of libvirt.
import type { ErrorEntry } from "../../entry.ts";

export const LIBVIRT_ERRORS = {
  LIBVIRT_UNREACHABLE: {
    summary: "the launcher's libvirt cannot be reached: {message}",
    who: "environment",
    retry: "backoff",
    http: 503,
  },
  LIBVIRT_CONNECTION_LOST: {
    summary: "the connection to libvirt was lost: {message}",
    who: "environment",
    retry: "backoff",
    http: 503,
  },
  LIBVIRT_TIMED_OUT: {
    summary: "libvirt did not answer {call} within {timeoutMs} ms",
    who: "environment",
    retry: "backoff",
    http: 504,
  },
  LIBVIRT_NO_DOMAIN: {
    summary: "there is no domain {domain}",
    who: "environment",
    retry: "backoff",
    http: 404,
  },
  LIBVIRT_DEVICE_MISSING: {
    summary: "the domain has no device {device}",
    who: "environment",
    retry: "backoff",
    http: 404,
  },
  LIBVIRT_NO_FREE_PORT: {
    summary: "no PCI slot is free for {device}",
    who: "environment",
    retry: "on-change",
    http: 409,
  },
  LIBVIRT_DEVICE_EXISTS: {
    summary: "the domain already has a device {device}",
    who: "environment",
    retry: "backoff",
    http: 409,
  },
  LIBVIRT_ADDRESS_REFUSED: {
    summary: "libvirt refused the PCI address: {message}",
    who: "environment",
    retry: "on-change",
    http: 409,
  },
  LIBVIRT_TAP_REFUSED: {
    summary: "QEMU cannot use the tap: {message}",
    who: "environment",
    retry: "backoff",
    http: 500,
  },
  LIBVIRT_NOT_RUNNING: {
    summary: "the domain {domain} is not running: {message}",
    who: "environment",
    retry: "on-change",
    http: 409,
  },
  LIBVIRT_UNSUPPORTED: {
    summary: "libvirt or QEMU does not support this: {message} ({number}/{domainNumber})",
    who: "user",
    retry: "on-change",
    http: 422,
  },
  LIBVIRT_AGENT_UNAVAILABLE: {
    summary: "the guest agent does not answer: {message}",
    who: "environment",
    retry: "on-change",
    http: 503,
  },
  LIBVIRT_BUSY: {
    summary: "libvirt is busy: {message}",
    who: "environment",
    retry: "backoff",
    http: 409,
  },
  LIBVIRT_MIGRATING: {
    summary: "the domain is being migrated: {message}",
    who: "environment",
    retry: "backoff",
    http: 409,
  },
  LIBVIRT_UNPLUG_PENDING: {
    summary: "the guest has already been asked to let go of {device}: {message}",
    who: "environment",
    retry: "backoff",
    http: 409,
  },
  LIBVIRT_JOB_ABORTED: {
    summary: "{call} was aborted: {message}",
    who: "environment",
    retry: "backoff",
    http: 409,
  },
  LIBVIRT_PEER_LOST: {
    summary: "the connection to the other libvirt was lost during {call}: {message}",
    who: "environment",
    retry: "backoff",
    http: 503,
  },
  LIBVIRT_REFUSED: {
    summary: "libvirt refused {call}: {message} ({number}/{domainNumber})",
    who: "environment",
    retry: "backoff",
    http: 500,
  },
} as const satisfies Record<string, ErrorEntry>;
