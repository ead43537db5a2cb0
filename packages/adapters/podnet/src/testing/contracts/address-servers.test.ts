// SPDX-License-Identifier: Apache-2.0
import { createFakeAddressServers } from "../fakes/address-servers.ts";
import { describeAddressServersContract, SERVED_NIC } from "./address-servers.ts";

const NETNS = { fd: 8, inode: "42" };

describeAddressServersContract("fake", () => {
  const servers = createFakeAddressServers();
  return Promise.resolve({
    servers,
    netns: NETNS,
    requestAddress: () =>
      Promise.resolve(servers.requestLease(NETNS.inode, SERVED_NIC.mac)?.ipv4?.address),
    kill: () => {
      servers.kill(NETNS.inode);
      return Promise.resolve();
    },
    close: () => Promise.resolve(),
  });
});
