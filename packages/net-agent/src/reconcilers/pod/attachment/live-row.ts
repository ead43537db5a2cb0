// SPDX-License-Identifier: Apache-2.0
// Is a row of the journal of the sandbox that is there now? What is of another, or of before a boot, only can be undone.
import type { JournalRow } from "@patchbay/cni";
import type { Sandbox } from "@patchbay/ports";

/** Whether the attachment was begun in this boot and in this very namespace; a sandbox that is gone has none. */
export function isLive(row: JournalRow, sandbox: Sandbox | undefined, bootId: string): boolean {
  return (
    row.bootId === bootId &&
    row.request.containerId === sandbox?.id &&
    row.netnsInode === sandbox.netnsInode
  );
}
