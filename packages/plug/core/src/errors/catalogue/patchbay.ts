// SPDX-License-Identifier: Apache-2.0
// Errors of the command line.
import type { ErrorEntry } from "../entry.ts";

export const PATCHBAY_ERRORS = {
  FLAG_INVALID: {
    summary: "{flag}: {reason}",
    who: "user",
    retry: "never",
    http: 400,
  },
} as const satisfies Record<string, ErrorEntry>;
