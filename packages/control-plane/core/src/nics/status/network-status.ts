// SPDX-License-Identifier: Apache-2.0
// Merges net-agent's entries into a pod's annotation `network-status`. Entries of other components stay unchanged.
import type { NetworkStatus } from "@patchbay/api";
import type { OwnedAttachment } from "../attachments/attachment-actions.ts";

export interface ReportedAttachment extends Pick<
  OwnedAttachment,
  "interfaceName" | "state" | "isStale" | "isAdopted"
> {
  /** CNI results, one for each NIC in the pod. Empty until ADD has succeeded. */
  readonly entries: readonly NetworkStatus[];
}

export function listInterfaces({
  interfaceName,
  entries,
}: Pick<ReportedAttachment, "interfaceName" | "entries">): readonly string[] {
  return [...new Set([interfaceName, ...entries.flatMap((entry) => entry.interface ?? [])])];
}

/**
 * Replaces own entries in place, and appends new ones in the order of `attachments`, which is the order they were started
 * in. Drops entries of deleted sandboxes.
 */
export function mergeNetworkStatus(
  current: readonly NetworkStatus[],
  attachments: readonly ReportedAttachment[],
): readonly NetworkStatus[] {
  const present = attachments.filter(({ state, isStale }) => state === "attached" && !isStale);
  // The runtime writes the entries of what it created. In a new sandbox that may be a NIC that net-agent removed before.
  const adopted = new Set(present.filter(({ isAdopted }) => isAdopted).flatMap(listInterfaces));
  const ours = attachments.filter(({ isAdopted, state }) => !isAdopted || state === "removed");
  const own = new Set(ours.flatMap(listInterfaces).filter((name) => !adopted.has(name)));
  const written = new Set(current.map((entry) => entry.interface));
  const entries = present.flatMap(({ isAdopted, entries: all }) =>
    isAdopted ? all.filter((entry) => !written.has(entry.interface)) : all,
  );
  const retained = current.flatMap((entry) =>
    entry.interface === undefined || !own.has(entry.interface)
      ? [entry]
      : entries.filter(({ interface: name }) => name === entry.interface),
  );
  const placed = new Set(retained.map((entry) => entry.interface));
  return [...retained, ...entries.filter((entry) => !placed.has(entry.interface))];
}
