// SPDX-License-Identifier: Apache-2.0
// Errors of the Kubernetes client.
import type { ErrorEntry } from "../entry.ts";

export const KUBE_ERRORS = {
  KUBE_NOT_FOUND: {
    summary: "{resource} {object} does not exist",
    who: "environment",
    retry: "on-change",
    http: 404,
  },
  KUBE_CONFLICT: {
    summary: "{resource} {object} was changed by another writer in the meantime",
    who: "environment",
    retry: "backoff",
    http: 409,
  },
  KUBE_WRITES_LOST: {
    summary:
      "{count} writes of {resource} {object} in a row were refused because it had changed: {message}",
    who: "bug",
    retry: "backoff",
    http: 409,
  },
  KUBE_NOT_LEADING: {
    summary: "nothing is written now: this process does not lead, or cannot renew its lease",
    who: "environment",
    retry: "backoff",
    http: 503,
  },
  KUBE_LEASE_LOST: {
    summary: "{leader} leads now",
    who: "environment",
    retry: "never",
    http: 503,
  },
  KUBE_ALREADY_EXISTS: {
    summary: "{resource} {object} already exists",
    who: "environment",
    retry: "backoff",
    http: 409,
  },
  KUBE_REFUSED: {
    summary: "the API server refused to {verb} {resource} {object}: {message}",
    who: "user",
    retry: "backoff",
    http: 422,
  },
  KUBE_UNAUTHORIZED: {
    summary: "the API server does not accept these credentials: {message}",
    who: "environment",
    retry: "backoff",
    http: 401,
  },
  KUBE_FORBIDDEN: {
    summary: "the API server forbids the request: {message}",
    who: "environment",
    retry: "backoff",
    http: 403,
  },
  KUBE_UNREACHABLE: {
    summary: "the API server {server} cannot be reached: {message}",
    who: "environment",
    retry: "backoff",
    http: 503,
  },
  KUBE_EXPIRED: {
    summary: "the resource version is too old: {message}",
    who: "environment",
    retry: "backoff",
    http: 410,
  },
  KUBE_SERVER_FAILED: {
    summary: "the API server failed with {status}: {message}",
    who: "environment",
    retry: "backoff",
    http: 500,
  },
  KUBE_WAIT_TIMED_OUT: {
    summary: "{what} was not complete within {timeoutMs} ms; it is {state}",
    who: "environment",
    retry: "backoff",
    http: 504,
  },
  KUBE_WAIT_FAILED: {
    summary: "{what} cannot be completed as things stand: {reason}",
    who: "environment",
    retry: "backoff",
    http: 409,
  },
  KUBE_WAIT_INTERRUPTED: {
    summary: "{what} was requested and is still in progress; it is {state}",
    who: "user",
    retry: "never",
    http: 499,
  },
  KUBE_CONFIG_INVALID: {
    summary: "the kubeconfig {path} cannot be used: {reason}",
    who: "user",
    retry: "never",
    http: 400,
  },
} as const satisfies Record<string, ErrorEntry>;
