// SPDX-License-Identifier: Apache-2.0
// Fakes of this package's ports, and the contract suites that fakes and adapters pass.
export {
  describeAddressServersContract,
  SERVED_NIC,
  type AddressServersBench,
} from "./contracts/address-servers.ts";
export {
  describeDefaultRoutesContract,
  type DefaultRoutesScene,
} from "./contracts/default-routes.ts";
export { describeLinkCountersContract } from "./contracts/link-counters.ts";
export { describeFrameWatchContract, describeLinkWatchContract } from "./contracts/link-watch.ts";
export { describeNetlinkContract } from "./contracts/netlink.ts";
export { describeNicDoctorContract } from "./contracts/nic-doctor.ts";
export {
  describeNodeNicsContract,
  BORROWED_ADDRESSES,
  BORROWED_MAC,
  BORROWED_PATH,
  BORROWED_PCI,
  type NodeNicsScene,
} from "./contracts/node-nics.ts";
export { CAPTURED_LINK, describePacketCapturesContract } from "./contracts/packet-captures.ts";
export { describePodNetworkContract } from "./contracts/pod-network.ts";
export { createFakeAddressServers, type FakeAddressServers } from "./fakes/address-servers.ts";
export { createFakeDefaultRoutes, type FakeDefaultRoutes } from "./fakes/default-routes.ts";
export { createFakeLinkCounters, type FakeLinkCounters } from "./fakes/link-counters.ts";
export {
  createFakeFrameWatch,
  createFakeLinkWatch,
  type FakeFrameWatch,
  type FakeLinkWatch,
} from "./fakes/link-watch.ts";
export { createFakeNetlink, type FakeNetlink } from "./fakes/netlink.ts";
export { createFakeNicDoctor, type FakeNicDoctor } from "./fakes/nic-doctor.ts";
export { createFakeNodeNics, type FakeNodeNics } from "./fakes/node-nics.ts";
export { createFakePacketCaptures, type FakePacketCaptures } from "./fakes/packet-captures.ts";
export { createFakePodNetwork, WIRING_PARTS, type FakePodNetwork } from "./fakes/pod-network.ts";
