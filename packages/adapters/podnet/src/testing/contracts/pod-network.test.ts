// SPDX-License-Identifier: Apache-2.0
// The fake of the kernel keeps the contract.
import { createFakePodNetwork } from "../fakes/pod-network.ts";
import { describePodNetworkContract } from "./pod-network.ts";

describePodNetworkContract("fake", "veth", () => {
  const network = createFakePodNetwork();
  const netns = { fd: -1, inode: "4026532000" };
  return Promise.resolve({
    network,
    netns,
    addNic: (nic) => {
      network.putLink(netns.inode, { ...nic, mtu: 1500, up: nic.kind !== "tun" });
      return Promise.resolve();
    },
    removeNic: (name) => {
      network.takeLink(netns.inode, name);
      return Promise.resolve();
    },
    close: () => Promise.resolve(),
  });
});
