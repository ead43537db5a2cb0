// SPDX-License-Identifier: Apache-2.0
// Reviewed incompatible changes of CRDs since the last release. Each needs a line in docs/upgrade.md. The list is
// emptied when a release is recorded.
import type { Change } from "./crd-changes.ts";

export interface AcceptedChange extends Change {
  /** Why no object, client or agent of the last release is affected. */
  readonly reason: string;
}

export const ACCEPTED_CHANGES: readonly AcceptedChange[] = [];

interface AcceptedDifference {
  /** Matches paths such as `/Pod virt-launcher-vm1-12345/metadata/annotations/…` and `nodes/node1/…`. */
  readonly pattern: RegExp;
  /** Why agents and controllers of the last release work with the new value. */
  readonly reason: string;
}

/** Reviewed differences of stored objects and files from those of the last release. Emptied like the list above. */
export const ACCEPTED_DIFFERENCES: readonly AcceptedDifference[] = [];
