// SPDX-License-Identifier: Apache-2.0

/** Fix for each reason. The doctor replaces `DEV` with the name of the link, and other words in capitals if it knows their value. */
export const DOCTOR_FIXES = {
  AddressServerDown:
    "see the log of virt-handler on the node; virt-handler restarts the server at the next reconcile of the VM",
  BridgeChanged: "virt-handler recreates it; find the program that changes links in launcher pods",
  BridgeDown: "virt-handler sets it up again; find the program that changes links in launcher pods",
  BridgeMissing: "virt-handler recreates it; find the program that removes links in launcher pods",
  ChecksumUnfinished:
    "switch checksum offloading off at the last link before the loss (`ethtool -K DEV tx off`), or let the next hop complete checksums",
  DeviceLinkDown: "set `state: up` at the interface of the VM",
  DuplicateAddress: "assign another address to one of the two hosts",
  EntryMissing:
    "virt-handler recreates it; find the program that changes the bridge's forwarding table",
  EntryElsewhere:
    "delete the forwarding entry: `bridge fdb show`, `bridge fdb del MAC dev DEV master`",
  ForwardingRefused:
    "allow it on the node: `sysctl net.ipv4.ip_forward`, `nft list hooks`, `iptables -S FORWARD`",
  FramesLost:
    "check the rules (nft, iptables, tc, XDP) at this link, and whether a policy of the network refuses the guest",
  GatewayAddressMissing:
    "add the address to the node's bridge again, with the network's prefix length: `ip addr add DEV/LENGTH dev BRIDGE`",
  GatewayClaimed: "find the host with the other MAC, and remove the address from it",
  GatewayPrefixWrong:
    "set the network's prefix length for the address on the node: `ip addr show to DEV`, `ip addr replace DEV/LENGTH dev BRIDGE`",
  GatewaySilent: "check that the gateway runs and has that address on this network",
  GuardRefuses:
    "add the address to portSecurity.allowedAddresses of the interface, or remove it in the guest",
  GuestRefusesIp:
    "let the guest's firewall accept incoming packets: `nft list ruleset` or `iptables -S INPUT` in the guest",
  GuestSilent:
    "set the link up in the guest, and check its firewall: the guest receives ARP requests and does not answer",
  LearningOn:
    "virt-handler switches it off again; find the program that changes ports of the bridge",
  LossyLink:
    "find what drops some of the frames: `tc -s qdisc show dev DEV`, `ip -s link show DEV`, and the rules and the load there",
  MasqueradeMissing:
    "restore the rule that translates the guest's addresses on the node: delete the launcher pod, so that the network's plugin recreates it, or `nft add rule ip nat POSTROUTING oifname DEV masquerade`",
  MtuSmaller:
    "set the network's MTU on all links of the path, or the smallest MTU of the path on the network",
  NicDown: "set it up in the pod or recreate the pod, and find the program that set it down",
  NicMissing: "see the events of the VMI and the log of net-agent: CNI did not create this NIC",
  NicOutOfBridge:
    "virt-handler adds it to its bridge again; find the program that changes links in launcher pods",
  NicWrongMac:
    "virt-handler sets the guest's MAC on it again; find the program that changes links in the pod",
  NeighborWrong:
    "delete the neighbor entry: `ip neigh show`, `ip neigh del ADDRESS dev DEV` on the host that has it",
  NoAddressInGuest: "request an address by DHCP in the guest, or configure one on its NIC",
  NoDefaultRoute: "request the DHCP lease again in the guest, or set the route there",
  NoCarrier: "check the other end of this link: `ip -d link show DEV`, `ethtool DEV`",
  NobodyOffers: "check that a DHCP server runs on the network and has free addresses in its range",
  NodeBridgeDown: "set the bridge up on the node: `ip link set DEV up`",
  NotPlugged: "see `patchbay explain` for who acts next",
  PeerDown: "set it up on the node: `ip link set DEV up`",
  PeerElsewhere:
    "find the namespace with the other end of DEV (`ip -d link show DEV` in the pod, `ip netns`), or delete the launcher pod, so that it is recreated",
  PeerOutOfBridge:
    "add it to its bridge on the node: `ip link set DEV master BRIDGE`; or delete the launcher pod, so that it is recreated",
  PortBlocked:
    "check the spanning tree of the bridge, because this port does not forward: `bridge -d link show dev DEV`",
  RulesChanged: "virt-handler recreates them; find the program that changes rules in launcher pods",
  TapDown: "virt-handler sets it up again; find the program that changes links in launcher pods",
  TapMissing: "virt-handler recreates it; find the program that removes links in launcher pods",
  TapNotOpen: "check the guest's QEMU, which does not have the tap open",
  TapOutOfBridge:
    "virt-handler adds it to its bridge again; find the program that changes links in launcher pods",
  UplinkDown: "set it up on the node: `ip link set DEV up`; check its cable and its switch",
  UplinkMissing: "make a NIC of the node a port of the bridge, or name the right bridge",
  VlanMissing: "add the VLAN to this port: `bridge vlan add vid VLAN dev DEV`",
  WrongMacInGuest: "set the MAC that the VM declares on the NIC in the guest",
} as const satisfies Readonly<Record<string, string>>;

export type DoctorReason = keyof typeof DOCTOR_FIXES;
