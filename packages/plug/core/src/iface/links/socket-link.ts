// SPDX-License-Identifier: Apache-2.0
// How a launcher calls a socket. A door of its own (`@patchbay/core/socket-link`): who makes the link loads no decision.

/** What the launcher calls the socket of that NIC of its pod: the same on each node to which the guest may move. */
export function socketLinkOf(podInterfaceName: string): string {
  return `vhost-${podInterfaceName}`;
}
