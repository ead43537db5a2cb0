// SPDX-License-Identifier: Apache-2.0
// What does a pod's annotation `network-status` say after a pass of net-agent? Its own entries by NIC, everybody
// else's untouched.
import type { NetworkStatus } from "@patchbay/api";
import type { OwnedAttachment } from "../../plan/attachments/attachment-actions.ts";

/** An attachment of net-agent, and what is known of its NICs. */
export interface ToldAttachment extends Pick<
  OwnedAttachment,
  "interfaceName" | "state" | "isStale" | "isAdopted"
> {
  /** What its CNI result says, one for each NIC in the pod; empty until ADD has succeeded. */
  readonly entries: readonly NetworkStatus[];
}

/** The NICs that an attachment has, or had, in the pod: the one that was asked for, and what its result names. */
export function interfacesOf({
  interfaceName,
  entries,
}: Pick<ToldAttachment, "interfaceName" | "entries">): readonly string[] {
  return [...new Set([interfaceName, ...entries.flatMap((entry) => entry.interface ?? [])])];
}

/**
 * The entries of `network-status`: a foreign one stays where it is, ours is replaced in its place or appended in the
 * order of `attachments`, that in which they were begun. One of a sandbox that is gone says nothing.
 */
export function mergeNetworkStatus(
  current: readonly NetworkStatus[],
  attachments: readonly ToldAttachment[],
): readonly NetworkStatus[] {
  const present = attachments.filter(({ state, isStale }) => state === "attached" && !isStale);
  // The runtime writes the entry of what it made; in a new sandbox that may be what we made and removed in the one before.
  const adopted = new Set(present.filter(({ isAdopted }) => isAdopted).flatMap(interfacesOf));
  const ours = attachments.filter(({ isAdopted, state }) => !isAdopted || state === "removed");
  const own = new Set(ours.flatMap(interfacesOf).filter((name) => !adopted.has(name)));
  const written = new Set(current.map((entry) => entry.interface));
  const entries = present.flatMap(({ isAdopted, entries: all }) =>
    isAdopted ? all.filter((entry) => !written.has(entry.interface)) : all,
  );
  const kept = current.flatMap((entry) =>
    entry.interface === undefined || !own.has(entry.interface)
      ? [entry]
      : entries.filter(({ interface: name }) => name === entry.interface),
  );
  const placed = new Set(kept.map((entry) => entry.interface));
  return [...kept, ...entries.filter((entry) => !placed.has(entry.interface))];
}
