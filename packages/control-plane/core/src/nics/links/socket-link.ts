// SPDX-License-Identifier: Apache-2.0
// Names of vhost-user sockets in the launcher. This file is exported separately, so that importers do not load all of core.

/** Returns the file name of a pod NIC's socket in the launcher. It is the same on all nodes, so that a migrated domain finds the socket. */
export function buildSocketLinkName(podInterfaceName: string): string {
  return `vhost-${podInterfaceName}`;
}
