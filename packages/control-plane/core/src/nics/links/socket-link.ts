// SPDX-License-Identifier: Apache-2.0
// Names of vhost-user sockets in the launcher. A separate entry point, so that programs that create the link load nothing else.

/** The launcher's name for a pod NIC's socket. It is the same on each node, so a migrated domain still finds its socket. */
export function buildSocketLinkName(podInterfaceName: string): string {
  return `vhost-${podInterfaceName}`;
}
