// SPDX-License-Identifier: Apache-2.0
// Reasons of dead hops, and the fixes. A test compares them with the table in docs/doctor.md.

/** The fix by reason. `DEV` is replaced with the name of the link. */
export const DOCTOR_FIXES = {
  AddressServerDown:
    "see the log of virt-handler on the node; the server is started again when its VM is looked at",
  BridgeChanged: "virt-handler makes it again; find who changes links in launcher pods",
  BridgeDown: "virt-handler sets it up again; find who changes links in launcher pods",
  BridgeMissing: "virt-handler makes it again; find who removes links in launcher pods",
  ChecksumUnfinished:
    "switch checksum offloading off at the last link before the loss (`ethtool -K LINK tx off`), or let what is behind it finish checksums",
  DeviceLinkDown: "set `state: up` at the interface of the VM",
  DuplicateAddress: "give one of the two another address",
  EntryMissing: "virt-handler makes it again; find who changes the bridge's forwarding table",
  EntryElsewhere:
    "delete the forwarding entry: `bridge fdb show`, `bridge fdb del MAC dev DEV master`",
  ForwardingRefused:
    "allow it on the node: `sysctl net.ipv4.ip_forward`, `nft list hooks`, `iptables -S FORWARD`",
  FramesLost:
    "look for rules (nft, iptables, tc, XDP) at this link, and for a policy of the network that refuses the guest",
  GatewayAddressMissing:
    "give the address back to the bridge of the node, with the length of its network: `ip addr add GATEWAY/LENGTH dev BRIDGE`",
  GatewayClaimed: "find the host with the other MAC, and take the address away from it",
  GatewayPrefixWrong:
    "give the address the length of its network on the node: `ip addr show to DEV`, `ip addr replace DEV/LENGTH dev BRIDGE`",
  GatewaySilent: "see whether the gateway runs, and has that address on this network",
  GuardRefuses:
    "name the address in portSecurity.allowedAddresses of the interface, or take it from the guest",
  GuestRefusesIp:
    "let the guest's firewall accept incoming packets: `nft list ruleset` or `iptables -S INPUT` in the guest",
  GuestSilent:
    "set the link up in the guest, and look at its firewall: it gets ARP and answers nothing",
  LearningOn: "virt-handler switches it off again; find who changes ports of the bridge",
  LossyLink:
    "look for what drops a part of the frames: `tc -s qdisc show dev DEV`, `ip -s link show DEV`, and the rules and the load there",
  MasqueradeMissing:
    "restore the rule that translates the guest's addresses on the node: delete the launcher pod, so that the network's plugin makes it again, or `nft add rule ip nat POSTROUTING oifname DEV masquerade`",
  MtuSmaller: "give all links of the way the MTU of the network, or the network the smallest one",
  NicDown: "set it up in the pod or recreate the pod, and find out which program set it down",
  NicMissing: "see the events of the VMI and the log of net-agent: CNI has made no such NIC",
  NicOutOfBridge: "virt-handler puts it back; find who changes links in launcher pods",
  NicWrongMac: "virt-handler gives it the guest's MAC again; find who changes links in the pod",
  NeighborWrong:
    "delete the neighbor entry: `ip neigh show`, `ip neigh del ADDRESS dev LINK` on the host that has it",
  NoAddressInGuest: "let the guest ask by DHCP, or give the NIC an address in the guest",
  NoDefaultRoute: "let the guest ask by DHCP again, or set the route in the guest",
  NoCarrier: "check the other end of this link: `ip -d link show DEV`, `ethtool DEV`",
  NobodyOffers:
    "see whether a DHCP server runs on the network, and has addresses left in its range",
  NodeBridgeDown: "set the bridge up on the node: `ip link set DEV up`",
  NotPlugged: "see `patchbay explain` for who acts next",
  PeerDown: "set it up on the node: `ip link set DEV up`",
  PeerElsewhere:
    "find the namespace with the other end of DEV (`ip -d link show DEV` in the pod, `ip netns`), or delete the launcher pod, so that it is created again",
  PeerOutOfBridge:
    "put it back into its bridge on the node: `ip link set DEV master BRIDGE`; or delete the launcher pod, so that it is created again",
  PortBlocked:
    "see the spanning tree of the bridge, since this port does not forward: `bridge -d link show dev DEV`",
  RulesChanged: "virt-handler makes them again; find who changes rules in launcher pods",
  TapDown: "virt-handler sets it up again; find who changes links in launcher pods",
  TapMissing: "virt-handler makes it again; find who removes links in launcher pods",
  TapNotOpen: "see the guest's QEMU: it does not have the tap open",
  TapOutOfBridge: "virt-handler puts it back; find who changes links in launcher pods",
  UplinkDown: "set it up on the node: `ip link set DEV up`; check its cable and its switch",
  UplinkMissing: "make a NIC of the node a port of the bridge, or name the right bridge",
  VlanMissing: "add the VLAN to this port: `bridge vlan add vid VLAN dev DEV`",
  WrongMacInGuest: "give the NIC in the guest the MAC that the VM declares",
} as const satisfies Readonly<Record<string, string>>;

export type DoctorReason = keyof typeof DOCTOR_FIXES;
