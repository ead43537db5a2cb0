// SPDX-License-Identifier: Apache-2.0
// The public door of podnet.
export { createPodNetwork } from "./pod-network.ts";
export { createDefaultRoutes } from "./netlink/default-routes.ts";
export { createAddressServers } from "./dhcp/address-servers.ts";
export { createPacketCaptures } from "./captures/packet-captures.ts";
export { createNodeNics } from "./node-nics/node-nics.ts";
export { createNicDoctor } from "./doctor/nic-doctor.ts";
export { listHostLinks, openHostNetns, type HostLinksDeps } from "./host-links.ts";
