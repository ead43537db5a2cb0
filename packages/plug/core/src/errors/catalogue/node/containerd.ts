// SPDX-License-Identifier: Apache-2.0
// Errors of a machine's own containerd.
import type { ErrorEntry } from "../../entry.ts";

export const CONTAINERD_ERRORS = {
  CONTAINERD_PATH_TOO_LONG: {
    summary: "a socket in {path} has a path that is {bytesOver} bytes too long: take a shorter one",
    who: "user",
    retry: "never",
    http: 400,
  },
  IMAGE_SOURCE_INVALID: {
    summary: "{source} cannot be made an image: {reason}",
    who: "user",
    retry: "never",
    http: 400,
  },
  CONTAINERD_FAILED: {
    summary: "containerd: {call} failed: {reason}",
    who: "environment",
    retry: "backoff",
    http: 500,
  },
} as const satisfies Record<string, ErrorEntry>;
