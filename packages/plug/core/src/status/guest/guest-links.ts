// SPDX-License-Identifier: Apache-2.0
// What is reported of links that are the guest's own: bridges, tunnels, NICs of containers in it.
import type { IfaceStatus, VmiStatus } from "@patchbay/api";
import type { LinkView } from "../../guest/view.ts";

/** More of them are only counted: they would fill the object. Source: KubeVirt network/setup/netstat.go. */
export const GUEST_LINKS_MAX = 10;

/** An entry without a name, since no iface of the spec is it. */
function statusOf({ mac, name, ipv4, ipv6 }: LinkView): IfaceStatus {
  const addresses = [...(ipv4.value ?? []), ...(ipv6.value ?? [])];
  const [first] = addresses;
  return {
    infoSource: "guest-agent",
    ...(first === undefined ? {} : { ipAddress: first, ipAddresses: addresses }),
    ...(mac === undefined ? {} : { mac }),
    ...(name === undefined ? {} : { interfaceName: name }),
  };
}

/** The first of them, in the order in which they became known. */
export function guestLinkStatuses(links: readonly LinkView[]): readonly IfaceStatus[] {
  return links.slice(0, GUEST_LINKS_MAX).map(statusOf);
}

/** How many are not among them; absent when all are. */
export function unlistedGuestLinks(
  links: readonly LinkView[],
): Pick<VmiStatus, "unlistedGuestInterfaces"> {
  const unlisted = links.length - GUEST_LINKS_MAX;
  return unlisted > 0 ? { unlistedGuestInterfaces: unlisted } : {};
}
