// SPDX-License-Identifier: Apache-2.0
// Names of vhost-user sockets in the launcher. A separate entry point, so that programs that create the link load nothing else.

/** Returns the launcher's name for a pod NIC's socket. It is the same on each node, so that a migrated domain finds its socket. */
export function buildSocketLinkName(podInterfaceName: string): string {
  return `vhost-${podInterfaceName}`;
}
