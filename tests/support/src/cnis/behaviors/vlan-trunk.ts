// SPDX-License-Identifier: Apache-2.0
// Passes tagged frames of the guest unchanged, without addresses. Source: containernetworking/plugins, bridge with `vlanTrunk`;
// Open vSwitch CNI with `trunk`. This veth has no switch behind it, because not every kernel filters VLANs on bridges.
import {
  describeVeth,
  makeVeth,
  removeVeth,
  resultOf,
  setRequestedMac,
  type Behavior,
} from "../call.ts";

const PREFIX = "trk";

export const VLAN_TRUNK: Behavior = {
  add: (call) => {
    const veth = describeVeth(call, PREFIX);
    makeVeth(veth, "02:00:00:00:a5:02");
    setRequestedMac(call, veth);
    return resultOf(call, veth, {});
  },
  remove: (call) => {
    removeVeth(describeVeth(call, PREFIX));
  },
};
