// SPDX-License-Identifier: Apache-2.0
// The pod NIC's peer is in another namespace than the node's, so the node has no link of the network. Source: meshnet-cni
// (plugin/meshnet.go), which connects two pods by a veth; Open vSwitch in a namespace of its own.
import {
  describeVeth,
  freeAddress,
  ip,
  leaseAddress,
  makeVeth,
  removeVeth,
  resultOf,
  type Behavior,
} from "../call.ts";

const PREFIX = "mesh";

export const PEER_ELSEWHERE: Behavior = {
  add: (call) => {
    const address = `${leaseAddress(call)}/24`;
    const veth = describeVeth(call, PREFIX);
    makeVeth(veth, "02:00:00:00:a5:03");
    // The peer has the first address of the subnet, which host-local reserves for the gateway.
    const gateway = `${address.split(".").slice(0, 3).join(".")}.1`;
    ip(
      veth.node,
      "addr",
      "add",
      `${gateway}/32`,
      "peer",
      address.replace("/24", "/32"),
      "dev",
      veth.nodeEnd,
    );
    ip(veth.pod, "addr", "add", address, "dev", veth.nic);
    return resultOf(call, veth, { ips: [{ address, gateway, interface: 1 }] });
  },
  remove: (call) => {
    freeAddress(call);
    removeVeth(describeVeth(call, PREFIX));
  },
};
