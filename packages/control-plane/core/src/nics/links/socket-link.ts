// SPDX-License-Identifier: Apache-2.0
// Names of vhost-user sockets, exported separately so that importers do not load all of core.

/** The name is the same on all nodes, so that a migrated domain finds the socket. */
export function buildSocketLinkName(podInterfaceName: string): string {
  return `vhost-${podInterfaceName}`;
}
