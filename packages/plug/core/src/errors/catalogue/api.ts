// SPDX-License-Identifier: Apache-2.0
// Errors of the API and its rules.
import type { ErrorEntry } from "../entry.ts";

export const API_ERRORS = {
  API_INVALID: {
    summary: "the request is invalid: {causes}",
    who: "user",
    retry: "never",
    http: 422,
  },
  API_MALFORMED: {
    summary: "{what} cannot be parsed: {reason}",
    who: "user",
    retry: "never",
    http: 400,
  },
  API_NODE_UNREACHABLE: {
    summary: "virt-handler of node {node} does not answer: {reason}",
    who: "environment",
    retry: "backoff",
    http: 503,
  },
  API_SCREEN_UNREADABLE: {
    summary: "the guest's screen gives no picture: {reason}",
    who: "environment",
    retry: "backoff",
    http: 503,
  },
} as const satisfies Record<string, ErrorEntry>;
