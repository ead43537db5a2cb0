// SPDX-License-Identifier: Apache-2.0
import type { ErrorEntry } from "../entry.ts";

export const LIBVIRT_ERRORS = {
  LIBVIRT_UNREACHABLE: {
    summary: "the launcher's libvirt cannot be reached: {message}",
    owner: "environment",
    retry: "backoff",
    http: 503,
  },
  LIBVIRT_CONNECTION_LOST: {
    summary: "the connection to libvirt was lost: {message}",
    owner: "environment",
    retry: "backoff",
    http: 503,
  },
  LIBVIRT_TIMED_OUT: {
    summary: "libvirt did not answer {call} within {timeoutMs} ms",
    owner: "environment",
    retry: "backoff",
    http: 504,
  },
  LIBVIRT_NO_DOMAIN: {
    summary: "there is no domain {domain}",
    owner: "environment",
    retry: "backoff",
    http: 404,
  },
  LIBVIRT_DEVICE_MISSING: {
    summary: "the domain has no device {device}",
    owner: "environment",
    retry: "backoff",
    http: 404,
  },
  LIBVIRT_NO_FREE_PORT: {
    summary: "no PCI slot is free for {device}",
    owner: "environment",
    retry: "on-change",
    http: 409,
  },
  LIBVIRT_DEVICE_EXISTS: {
    summary: "the domain already has a device {device}",
    owner: "environment",
    retry: "backoff",
    http: 409,
  },
  LIBVIRT_ADDRESS_REFUSED: {
    summary: "libvirt refused the PCI address: {message}",
    owner: "environment",
    retry: "on-change",
    http: 409,
  },
  LIBVIRT_TAP_REFUSED: {
    summary: "QEMU cannot use the tap: {message}",
    owner: "environment",
    retry: "backoff",
    http: 500,
  },
  LIBVIRT_NOT_RUNNING: {
    summary: "the domain {domain} is not running: {message}",
    owner: "environment",
    retry: "on-change",
    http: 409,
  },
  LIBVIRT_UNSUPPORTED: {
    summary: "libvirt or QEMU does not support this: {message} ({number}/{domainNumber})",
    owner: "user",
    retry: "on-change",
    http: 422,
  },
  LIBVIRT_AGENT_UNAVAILABLE: {
    summary: "the guest agent does not answer: {message}",
    owner: "environment",
    retry: "on-change",
    http: 503,
  },
  LIBVIRT_BUSY: {
    summary: "libvirt is busy: {message}",
    owner: "environment",
    retry: "backoff",
    http: 409,
  },
  LIBVIRT_MIGRATING: {
    summary: "the domain is being migrated: {message}",
    owner: "environment",
    retry: "backoff",
    http: 409,
  },
  LIBVIRT_UNPLUG_PENDING: {
    summary: "the guest was already requested to release {device}: {message}",
    owner: "environment",
    retry: "backoff",
    http: 409,
  },
  LIBVIRT_JOB_ABORTED: {
    summary: "{call} was aborted: {message}",
    owner: "environment",
    retry: "backoff",
    http: 409,
  },
  LIBVIRT_PEER_LOST: {
    summary: "the connection to the target's libvirt was lost during {call}: {message}",
    owner: "environment",
    retry: "backoff",
    http: 503,
  },
  LIBVIRT_REFUSED: {
    summary: "libvirt refused {call}: {message} ({number}/{domainNumber})",
    owner: "environment",
    retry: "backoff",
    http: 500,
  },
} as const satisfies Record<string, ErrorEntry>;

export const HOOK_ERRORS = {
  HOOK_UNREACHABLE: {
    summary: "hook {hook} cannot be reached: {reason}",
    owner: "user",
    retry: "backoff",
    http: 503,
  },
  HOOK_TIMED_OUT: {
    summary: "hook {hook} did not answer {call} within {timeoutMs} ms",
    owner: "user",
    retry: "backoff",
    http: 504,
  },
  HOOK_FAILED: {
    summary: "hook {hook} failed at {call}: {reason}",
    owner: "user",
    retry: "backoff",
    http: 502,
  },
  HOOK_ANSWER_REFUSED: {
    summary: "the answer of hook {hook} to {call} was refused: {reason}",
    owner: "user",
    retry: "backoff",
    http: 422,
  },
} as const satisfies Record<string, ErrorEntry>;

export const DEVICE_ERRORS = {
  DEVICE_NOT_REGISTERED: {
    summary: "the kubelet at {kubeletSocket} did not register {resource}: {reason}",
    owner: "environment",
    retry: "backoff",
    http: 503,
  },
  DEVICE_UNKNOWN: {
    summary: "{resource} has no device {device}",
    owner: "bug",
    retry: "never",
    http: 404,
  },
  DEVICE_MISSING: {
    summary: "{resource} cannot be allocated: this node has no {path}",
    owner: "environment",
    retry: "on-change",
    http: 503,
  },
  DEVICES_UNKNOWN: {
    summary:
      "the kubelet at {socket} does not report the devices of pod {pod}: {reason}; check net-agent's --pod-resources-socket",
    owner: "environment",
    retry: "backoff",
    http: 503,
  },
  DEVICES_NOT_LISTED: {
    summary:
      "the kubelet at {socket} does not report which pods use devices of {resource}: {reason}",
    owner: "environment",
    retry: "backoff",
    http: 503,
  },
} as const satisfies Record<string, ErrorEntry>;

export const DOMAIN_ERRORS = {
  DOMAIN_XML_INVALID: {
    summary: "libvirt's domain XML cannot be used: {reason}",
    owner: "environment",
    retry: "backoff",
    http: 500,
  },
  DOMAIN_SPEC_UNSUPPORTED: {
    summary: "the VM cannot be defined: {reason}",
    owner: "user",
    retry: "on-change",
    http: 422,
  },
} as const satisfies Record<string, ErrorEntry>;
