// SPDX-License-Identifier: Apache-2.0
// Errors of devices that are offered to a kubelet, and of those that it has given to pods.
import type { ErrorEntry } from "../../entry.ts";

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
