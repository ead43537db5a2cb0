// SPDX-License-Identifier: Apache-2.0

/**
 * Fix for each reason. Words in capitals are placeholders, which docs/doctor.md lists. The doctor replaces placeholders
 * with known values. Commands for the pod's links get a prefix, so that they run in the pod's network namespace.
 */
export const DOCTOR_FIXES = {
  AddressServerDown:
    "virt-handler restarts the server at the next reconcile of the VM: `patchbay explain VM INTERFACE -n NAMESPACE`; its log on the node has the cause",
  BridgeChanged:
    "virt-handler recreates it; find the program that changes links in launcher pods: `ip monitor link`",
  BridgeDown:
    "virt-handler sets it up again, as `ip link set dev DEV up` does; find the program that changes links in launcher pods: `ip monitor link`",
  BridgeMissing:
    "virt-handler recreates it; find the program that removes links in launcher pods: `ip monitor link`",
  BroadcastsBlocked:
    "let the bridge send broadcasts to this port, so that other hosts find the guest by ARP: `bridge link set dev DEV bcast_flood on`",
  ChecksumUnfinished:
    "switch checksum offloading off at the last link before the loss, `ethtool -K DEV tx off`, or let the next hop complete checksums",
  DeviceLinkDown:
    "set its link up: `patchbay set interface VM --name INTERFACE --link up -n NAMESPACE`",
  DhcpNotRequested:
    "request an address in the guest: `dhclient DEV` or `networkctl reconfigure DEV`",
  DuplicateAddress:
    "assign another address to one of the two hosts; the port of the other host: `bridge fdb get MAC br BRIDGE`",
  EntryMissing:
    "virt-handler recreates it; find the program that changes the bridge's forwarding table: `bridge monitor fdb`",
  EntryElsewhere: "delete the forwarding entry: `bridge fdb del MAC dev DEV master`",
  ForwardingRefused:
    "allow it on the node: `sysctl -w net.ipv4.ip_forward=1`, `sysctl -w net.ipv4.conf.BRIDGE.rp_filter=2`, and find a rule that drops: `nft list hooks`, `iptables -S FORWARD`",
  FramesLost:
    "check the rules at this link (`nft list ruleset`, `tc -s qdisc show dev DEV`; XDP: `ip -d link show dev DEV`), and whether a policy of the network refuses the guest",
  GatewayAddressMissing:
    "add the address to the node's bridge again, with the network's prefix length: `ip addr add ADDRESS/LENGTH dev BRIDGE`",
  GatewayClaimed:
    "find the host with the other MAC, `bridge fdb get MAC br BRIDGE`, and remove the address from it",
  GatewayPrefixWrong:
    "replace the address on the node by one with the network's prefix length: `ip addr del CIDR dev BRIDGE`, `ip addr add ADDRESS/LENGTH dev BRIDGE`",
  GatewaySilent:
    "check that the gateway runs and has that address on this network; the requests and answers at the last link: `tcpdump -eni DEV arp and host ADDRESS`",
  GuardRefuses:
    "add the address to portSecurity.allowedAddresses of the interface, `kubectl edit vm VM -n NAMESPACE`, or remove it in the guest",
  GuestAgentMissing:
    "install the agent in the guest, so that its addresses are known: `apt install qemu-guest-agent`; or look at its console: `patchbay console VM -n NAMESPACE`",
  GuestBooting: "wait until it has booted: `patchbay console VM -n NAMESPACE`",
  GuestPaused: "resume it: `patchbay unpause VM -n NAMESPACE`",
  GuestRefusesIp:
    "let the guest's firewall accept incoming packets: `nft list ruleset` or `iptables -S INPUT` in the guest",
  GuestSilent:
    "set the link up in the guest, `ip link set dev DEV up`, and check its firewall, `nft list ruleset`: the guest receives ARP requests and does not answer",
  LearningOn:
    "virt-handler switches it off again, as `bridge link set dev DEV learning off` does; find the program that changes ports of the bridge: `bridge monitor link`",
  LossyLink:
    "find what drops some of the frames: `tc -s qdisc show dev DEV`, `ip -s link show dev DEV`, `nft list ruleset`, and the load there",
  MasqueradeMissing:
    "restore the rule that translates the guest's addresses on the node: `iptables -t nat -A POSTROUTING -s ADDRESS -o DEV -j MASQUERADE`; or delete the launcher pod, so that the network's plugin recreates it",
  MtuSmaller:
    "set the network's MTU on all links of the path, `ip link set dev DEV mtu MTU`, or the smallest MTU of the path on the network",
  NicAddressMissing:
    "add the address to the NIC again, `ip addr add ADDRESS/LENGTH dev DEV`, with its routes, or delete the launcher pod, so that it is recreated: `kubectl delete pod -l vm.kubevirt.io/name=VM -n NAMESPACE`",
  NicDown:
    "set it up in the pod, `ip link set dev DEV up`, and find the program that set it down: `ip monitor link`",
  NicMissing:
    "CNI did not create this NIC; the errors of net-agent: `patchbay explain VM INTERFACE -n NAMESPACE`",
  NicOutOfBridge:
    "virt-handler adds it to its bridge again, as `ip link set dev DEV master BRIDGE` does; find the program that changes links in launcher pods: `ip monitor link`",
  NicWrongMac:
    "virt-handler sets the guest's MAC on it again; find the program that changes links in the pod: `ip monitor link`",
  NeighborWrong:
    "delete the neighbor entry on the host that has it: `ip neigh flush to ADDRESS nud permanent`",
  NoAddressInGuest:
    "request an address by DHCP in the guest, `dhclient DEV` or `networkctl reconfigure DEV`, or configure one on its NIC",
  NoDefaultRoute:
    "request the DHCP lease again in the guest, or set the route there: `ip route add default via ADDRESS dev DEV`",
  NoCarrier: "check the other end of this link: `ip -d link show dev DEV`, `ethtool DEV`",
  NobodyOffers:
    "check that a DHCP server runs on the network and has free addresses in its range: `tcpdump -eni DEV port 67 or port 68`",
  NodeBridgeDown: "set the bridge up on the node: `ip link set dev DEV up`",
  NotPlugged: "see who acts next: `patchbay explain VM INTERFACE -n NAMESPACE`",
  PeerDown: "set it up on the node: `ip link set dev DEV up`",
  PeerElsewhere:
    "find the network namespace with the other end of this link, `ip -all netns exec ip -br link show type veth`, or delete the launcher pod, so that it is recreated: `kubectl delete pod -l vm.kubevirt.io/name=VM -n NAMESPACE`",
  PeerOutOfBridge:
    "add it to its bridge on the node: `ip link set dev DEV master BRIDGE`; or delete the launcher pod, so that it is recreated: `kubectl delete pod -l vm.kubevirt.io/name=VM -n NAMESPACE`",
  PortBlocked:
    "check the spanning tree of the bridge, because this port does not forward: `bridge -d link show dev DEV`",
  RouteElsewhere:
    "set the default route in the guest, unless it is meant to use another gateway: `ip route replace default via ADDRESS dev DEV`",
  RouteMissing:
    "correct routes and rules: `ip route show table all`, `ip rule show`; the kernel's choice for the guest's packets: `ip route get ADDRESS`",
  RulesChanged:
    "virt-handler recreates them; find the program that changes rules in launcher pods: `nft monitor`",
  TapDown:
    "virt-handler sets it up again, as `ip link set dev DEV up` does; find the program that changes links in launcher pods: `ip monitor link`",
  TapMissing:
    "virt-handler recreates it; find the program that removes links in launcher pods: `ip monitor link`",
  TapNotOpen: "the guest's QEMU does not have the tap open: `patchbay restart VM -n NAMESPACE`",
  TapOutOfBridge:
    "virt-handler adds it to its bridge again, as `ip link set dev DEV master BRIDGE` does; find the program that changes links in launcher pods: `ip monitor link`",
  UplinkDown: "set it up on the node: `ip link set dev DEV up`; check its cable and its switch",
  UplinkMissing:
    "make a NIC of the node a port of the bridge, `ip link set dev UPLINK master BRIDGE`, or name the right bridge",
  VlanMissing: "add the VLAN to this port: `bridge vlan add vid VLAN dev DEV`",
  WrongMacInGuest:
    "set the MAC that the VM declares on the NIC in the guest: `ip link set dev DEV address MAC`",
} as const satisfies Readonly<Record<string, string>>;

export type DoctorReason = keyof typeof DOCTOR_FIXES;
