// SPDX-License-Identifier: Apache-2.0
// The node's own bridges: those with a port that leads elsewhere than to a pod or a guest.
import type { Link } from "@patchbay/core/ports";

/** Kinds of links that lead to pods and guests. Source: Linux, rtnl_link_ops of veth and tun. */
const TO_GUESTS: readonly string[] = ["veth", "tun"];

/** Names of the bridges among the links of a host. */
export function ownBridgesOf(links: readonly Link[]): ReadonlySet<string> {
  return new Set(
    links.flatMap(({ kind, master }) =>
      master === undefined || TO_GUESTS.includes(kind) ? [] : [master],
    ),
  );
}
