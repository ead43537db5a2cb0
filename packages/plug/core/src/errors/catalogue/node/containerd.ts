// SPDX-License-Identifier: Apache-2.0
// Errors of a machine's own containerd.
import type { ErrorEntry } from "../../entry.ts";

export const CONTAINERD_ERRORS = {
  CONTAINERD_PATH_TOO_LONG: {
    summary:
      "the path of a socket in {path} is {bytesOver} bytes too long; choose a shorter directory",
    who: "user",
    retry: "never",
    http: 400,
  },
  IMAGE_SOURCE_INVALID: {
    summary: "{source} cannot be made into an image: {reason}",
    who: "user",
    retry: "never",
    http: 400,
  },
  CONTAINERD_FAILED: {
    summary: "containerd failed at {call}: {reason}",
    who: "environment",
    retry: "backoff",
    http: 500,
  },
} as const satisfies Record<string, ErrorEntry>;
