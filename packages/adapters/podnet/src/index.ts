// SPDX-License-Identifier: Apache-2.0
export { createPodNetwork } from "./pod-network.ts";
export { createDefaultRoutes } from "./netlink/default-routes.ts";
export { createDhcpServers } from "./dnsmasq.ts";
export { createPacketCaptures } from "./packet-captures.ts";
export {
  createNodeNics,
  type HostLinksDeps,
  type HostSubnet,
  listHostLinks,
  listHostSubnets,
  openHostNetns,
} from "./node-nics/node-nics.ts";
export { createNicDoctor } from "./doctor/nic-doctor.ts";
