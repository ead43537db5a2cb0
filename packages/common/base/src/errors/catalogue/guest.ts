// SPDX-License-Identifier: Apache-2.0
import type { ErrorEntry } from "../entry.ts";

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

export const HOOK_ERRORS = {
  HOOK_UNREACHABLE: {
    summary: "hook {hook} cannot be reached: {reason}",
    who: "user",
    retry: "backoff",
    http: 503,
  },
  HOOK_TIMED_OUT: {
    summary: "hook {hook} did not answer {call} within {timeoutMs} ms",
    who: "user",
    retry: "backoff",
    http: 504,
  },
  HOOK_FAILED: {
    summary: "hook {hook} failed at {call}: {reason}",
    who: "user",
    retry: "backoff",
    http: 502,
  },
  HOOK_ANSWER_REFUSED: {
    summary: "the answer of hook {hook} to {call} was refused: {reason}",
    who: "user",
    retry: "backoff",
    http: 422,
  },
} as const satisfies Record<string, ErrorEntry>;

export const DEVICE_ERRORS = {
  DEVICE_NOT_REGISTERED: {
    summary: "the kubelet at {kubeletSocket} did not register {resource}: {reason}",
    who: "environment",
    retry: "backoff",
    http: 503,
  },
  DEVICE_UNKNOWN: {
    summary: "{resource} has no device {device}",
    who: "bug",
    retry: "never",
    http: 404,
  },
  DEVICE_MISSING: {
    summary: "{resource} cannot be allocated: this node has no {path}",
    who: "environment",
    retry: "on-change",
    http: 503,
  },
  DEVICES_UNKNOWN: {
    summary:
      "the kubelet at {socket} does not say which devices pod {pod} has: {reason}; see net-agent's --pod-resources-socket",
    who: "environment",
    retry: "backoff",
    http: 503,
  },
  DEVICES_NOT_LISTED: {
    summary: "the kubelet at {socket} does not say which devices of {resource} pods have: {reason}",
    who: "environment",
    retry: "backoff",
    http: 503,
  },
} as const satisfies Record<string, ErrorEntry>;

export const DOMAIN_ERRORS = {
  DOMAIN_XML_INVALID: {
    summary: "libvirt's domain XML cannot be used: {reason}",
    who: "environment",
    retry: "backoff",
    http: 500,
  },
  DOMAIN_SPEC_UNSUPPORTED: {
    summary: "the VM cannot be defined: {reason}",
    who: "user",
    retry: "on-change",
    http: 422,
  },
} as const satisfies Record<string, ErrorEntry>;
