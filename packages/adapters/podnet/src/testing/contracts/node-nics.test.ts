// SPDX-License-Identifier: Apache-2.0
// The fake of the node's NICs keeps the contract.
import { createFakeNodeNics } from "../fakes/node-nics.ts";
import {
  describeNodeNicsContract,
  BORROWED_ADDRESSES,
  BORROWED_PATH,
  BORROWED_PCI,
} from "./node-nics.ts";

const HOST = { fd: -1, inode: "host" };
const POD = { fd: -1, inode: "pod" };

describeNodeNicsContract("in memory", () => {
  const nics = createFakeNodeNics();
  const card = { ...BORROWED_ADDRESSES, index: 2, name: "card0", kind: "veth", alias: "" };
  nics.put(HOST.inode, card);
  nics.put(HOST.inode, { ...card, name: "card1", index: 3, mac: "02:00:00:00:9c:02" });
  for (const device of [BORROWED_PCI, BORROWED_PATH]) nics.putDevice(device, "card0");
  return Promise.resolve({
    nics,
    host: HOST,
    pod: POD,
    lend: () => {
      const changes = { name: "net1", alias: "card0", mac: "02:00:00:00:9c:99", mtu: 1300 };
      nics.move({ inode: HOST.inode, name: "card0" }, POD.inode, { ...changes, up: true });
    },
    restore: (name) => {
      nics.move({ inode: POD.inode, name: "net1" }, HOST.inode, { name });
    },
    readSettings: (name) => {
      const nic = nics.findNic(HOST.inode, name);
      if (nic === undefined) return undefined;
      const { mac, mtu, up, addresses, routes } = nic;
      return { mac, mtu, up, addresses: [...addresses], routes: [...routes] };
    },
    listPodNics: () => nics.listNames(POD.inode),
    close: () => Promise.resolve(),
  });
});
