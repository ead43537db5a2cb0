// SPDX-License-Identifier: Apache-2.0
// The bench of third-party networks and what each story shows on them. docs/reference/networks.md shows this table.

/** `swap to`: a running guest's NIC moves from another network to the row's; `swap from`: the reverse. */
export const STORIES = ["plug", "swap to", "swap from", "restart", "migration", "unplug"] as const;
export type Story = (typeof STORIES)[number];

/** What a network's configuration needs of the machine. */
export interface BenchPlaces {
  /** Network namespace of the node. */
  readonly node: string;
  /** Another namespace than the node's. */
  readonly elsewhere: string;
  readonly leaseDir: string;
  readonly dhcpSocket: string;
  readonly bridgeOf: (network: string) => string;
}

export interface BenchRow {
  readonly network: string;
  /** What the guest must cope with. */
  readonly behavior: string;
  /** Projects that behave so. */
  readonly projects: string;
  /** Documentation or code of a project that describes the behavior. */
  readonly source: string;
  /** Members of the plugin's configuration beside type, behavior and bridge. */
  readonly settings: (places: BenchPlaces) => Readonly<Record<string, unknown>>;
  /** Hosts that the guest must reach. */
  readonly reach: readonly string[];
  /** Whether each node assigns addresses from its own store, so that a migration's target can get the guest's. */
  readonly storePerNode?: true;
  /** Resource that the definition names. */
  readonly resource?: string;
  readonly want: Readonly<Record<Story, string>>;
}

export const WORKS = "works";
/** The network assigns another address, which event `AddressNotKept` reports. */
const MOVED = "works; `AddressNotKept`";
/** The network assigns another MAC, which event `MacChanged` reports. */
const NEW_MAC = "works; `MacChanged`";
/** There is no NIC. */
export const NOT_RUN = "not run";
const NO_NIC = "`PodInterfaceMissing`";

/** The migration ends before the guest moves, because the target's addresses differ from the guest's. */
export const OTHER_ADDRESSES = "rejected: other addresses";
/** The network does not assign the running device's MAC, which cannot change. The NIC stays on its network. */
const UNMET_MAC = "`RequestNotMet`";
/** The migration ends before the guest moves, because the network assigned another MAC and passes only this MAC. */
export const OTHER_MAC = "rejected: other MAC";
const PARTLY_SERVED = "works; `AddressesPartlyServed`";

const WORKS_EVERYWHERE: BenchRow["want"] = {
  plug: WORKS,
  "swap to": WORKS,
  "swap from": WORKS,
  restart: WORKS,
  migration: WORKS,
  unplug: WORKS,
};

const PARTLY_SERVED_EVERYWHERE: BenchRow["want"] = {
  ...WORKS_EVERYWHERE,
  plug: PARTLY_SERVED,
  "swap to": PARTLY_SERVED,
  restart: PARTLY_SERVED,
  migration: PARTLY_SERVED,
};

/** Host behind the gateway of a /32. */
export const BEHIND = "192.0.2.1";

function hostLocal(
  { leaseDir }: BenchPlaces,
  subnets: readonly string[],
  more: Readonly<Record<string, unknown>> = {},
) {
  return {
    type: "host-local",
    dataDir: leaseDir,
    ranges: subnets.map((subnet) => [{ subnet }]),
    ...more,
  };
}

interface BridgeOptions {
  readonly ipam?: Readonly<Record<string, unknown>>;
  readonly settings?: Readonly<Record<string, unknown>>;
}

function onBridge(
  subnets: readonly string[],
  { ipam, settings }: BridgeOptions = {},
): BenchRow["settings"] {
  return (places) => ({ isGateway: true, ipam: hostLocal(places, subnets, ipam), ...settings });
}

/** 40 destinations, more than DHCP option 121 can hold. */
const ROUTES = Array.from({ length: 40 }, (_none, at) => ({
  dst: `10.${String(at + 100)}.7.0/24`,
  gw: "10.119.9.1",
}));
/** Declares that the network passes frames from any MAC. Networks of unknown plugins may check MACs. */
const ANY_MAC = { macspoofchk: false };
const DEFAULT_ROUTE = { routes: [{ dst: "0.0.0.0/0" }] };

export const BENCH: readonly BenchRow[] = [
  {
    network: "pins",
    behavior: "passes only frames from the MAC that it assigned, and accepts a requested MAC",
    projects: "Cilium, Kube-OVN and OVN-Kubernetes (port security)",
    source: "ovn-nb(5), column port_security; cilium, bpf/lib/lxc.h, is_valid_lxc_src_mac",
    settings: onBridge(["10.119.16.0/24"], { ipam: DEFAULT_ROUTE }),
    reach: ["10.119.16.1", BEHIND],
    storePerNode: true,
    want: WORKS_EVERYWHERE,
  },
  {
    network: "chooses",
    behavior: "like `pins`, and ignores a requested MAC",
    projects: "Kube-OVN and OVN-Kubernetes without a MAC in their own annotations",
    source:
      "kube-ovn, pkg/controller/pod.go, acquireAddress; ovn-kubernetes, pkg/util/net.go, IPAddrToHWAddr",
    settings: onBridge(["10.119.17.0/24"], { ipam: DEFAULT_ROUTE }),
    reach: ["10.119.17.1", BEHIND],
    storePerNode: true,
    want: {
      ...WORKS_EVERYWHERE,
      "swap to": UNMET_MAC,
      restart: NEW_MAC,
      migration: OTHER_MAC,
    },
  },
  {
    network: "permanent-neighbor",
    behavior: "/32, the gateway is a permanent neighbor and does not answer ARP",
    projects: "AWS VPC CNI",
    source: "amazon-vpc-cni-k8s, cmd/routed-eni-cni-plugin/driver/driver.go, createVethPairContext",
    settings: (places) => ({
      ...ANY_MAC,
      node: places.node,
      ipam: hostLocal(places, ["10.119.1.0/24"]),
    }),
    reach: [BEHIND],
    want: {
      ...WORKS_EVERYWHERE,
      "swap to": UNMET_MAC,
      restart: NEW_MAC,
      migration: OTHER_ADDRESSES,
    },
  },
  {
    network: "proxy-arp",
    behavior: "/32, the node answers ARP for the gateway 169.254.1.1",
    projects: "Calico",
    source: "calico, cni-plugin/internal/pkg/dataplane/linux/dataplane_linux.go, DoNetworking",
    settings: (places) => ({
      ...ANY_MAC,
      node: places.node,
      ipam: hostLocal(places, ["10.119.2.0/24"]),
    }),
    reach: [BEHIND],
    want: {
      ...WORKS_EVERYWHERE,
      "swap to": UNMET_MAC,
      restart: NEW_MAC,
      migration: OTHER_ADDRESSES,
    },
  },
  {
    network: "two-addresses",
    behavior: "two IPv4 addresses of two ranges",
    projects: "host-local with two range sets, whereabouts with two ranges",
    source: "containernetworking/plugins, host-local, `ranges`; whereabouts, `ipRanges`",
    settings: (places) => ({ ipam: hostLocal(places, ["10.119.3.0/24", "10.119.4.0/24"]) }),
    reach: ["10.119.3.1"],
    storePerNode: true,
    want: PARTLY_SERVED_EVERYWHERE,
  },
  {
    network: "ipv6-first",
    behavior: "an IPv6 address before the IPv4 address",
    projects: "dual-stack clusters with IPv6 as primary family",
    source: "kubernetes.io, IPv4/IPv6 dual-stack: the order of the cluster's ranges decides",
    settings: onBridge(["fd19:5::/64", "10.119.5.0/24"]),
    reach: ["10.119.5.1", "fd19:5::1"],
    storePerNode: true,
    want: WORKS_EVERYWHERE,
  },
  {
    network: "no-interface",
    behavior: "ADD succeeds without a NIC",
    projects: "plugins of KubeVirt's network bindings",
    source: "kubevirt, cmd/cniplugins/passt-binding",
    settings: () => ({}),
    reach: [],
    want: {
      plug: NO_NIC,
      "swap to": UNMET_MAC,
      "swap from": NOT_RUN,
      restart: NO_NIC,
      migration: NOT_RUN,
      unplug: WORKS,
    },
  },
  {
    network: "slow",
    behavior: "ADD takes 20 s",
    projects: "clouds that attach a card to the node first",
    source: "amazon-vpc-cni-k8s, eni-and-ip-target.md",
    settings: onBridge(["10.119.7.0/24"]),
    reach: ["10.119.7.1"],
    storePerNode: true,
    want: WORKS_EVERYWHERE,
  },
  {
    network: "moves",
    behavior: "another address at each ADD",
    projects: "OVN-Kubernetes without persistent IPs, whereabouts",
    source: "ovn-kubernetes, features/multiple-networks/multi-homing.md, `allowPersistentIPs`",
    settings: onBridge(["10.119.8.0/24"]),
    reach: ["10.119.8.1"],
    want: { ...WORKS_EVERYWHERE, restart: MOVED, migration: OTHER_ADDRESSES },
  },
  {
    network: "routes-and-dns",
    behavior: "40 routes, name servers and search domains",
    projects: "VPCs with peerings",
    source: "RFC 3442 and RFC 2132: an option has at most 255 bytes",
    settings: onBridge(["10.119.9.0/24"], {
      ipam: { routes: ROUTES },
      settings: {
        dns: { nameservers: ["10.119.9.53"], search: ["corp.example", "lab.example"] },
      },
    }),
    reach: ["10.119.9.1"],
    storePerNode: true,
    want: PARTLY_SERVED_EVERYWHERE,
  },
  {
    network: "marker",
    behavior: "the definition names a resource without devices",
    projects: "KubeVirt's bridge-marker, Open vSwitch CNI",
    source: "bridge-marker, README; ovs-cni, marker.md",
    settings: onBridge(["10.119.18.0/24"]),
    reach: ["10.119.18.1"],
    storePerNode: true,
    resource: "bridge.network.kubevirt.io/br1",
    want: WORKS_EVERYWHERE,
  },
  {
    network: "dhcp",
    behavior: "addresses of a DHCP server in the network (IPAM `dhcp`)",
    projects: "bridges and macvlans to a LAN",
    source: "containernetworking/plugins, plugins/ipam/dhcp",
    settings: ({ dhcpSocket }) => ({
      ...ANY_MAC,
      ipam: { type: "dhcp", daemonSocketPath: dhcpSocket },
    }),
    reach: ["10.119.10.1"],
    want: { ...WORKS_EVERYWHERE, migration: OTHER_ADDRESSES },
  },
  {
    network: "mtu-1400",
    behavior: "MTU 1400",
    projects: "overlays: VXLAN, Geneve, WireGuard",
    source: "RFC 7348 section 4.3; OVN and Calico subtract the encapsulation's size",
    settings: onBridge(["10.119.11.0/24"], { settings: { mtu: 1400 } }),
    reach: ["10.119.11.1"],
    storePerNode: true,
    want: WORKS_EVERYWHERE,
  },
  {
    network: "mtu-9000",
    behavior: "MTU 9000",
    projects: "storage networks, AWS and GCP with jumbo frames",
    source: "AWS, network MTU for EC2 instances",
    settings: onBridge(["10.119.12.0/24"], { ipam: DEFAULT_ROUTE, settings: { mtu: 9000 } }),
    reach: ["10.119.12.1", BEHIND],
    storePerNode: true,
    want: WORKS_EVERYWHERE,
  },
  {
    network: "vlan-trunk",
    behavior: "no addresses; the guest sends tagged frames",
    projects: "bridge with `vlanTrunk`, Open vSwitch CNI with `trunk`",
    source: "containernetworking/plugins, plugins/main/bridge; ovs-cni, cni-plugin.md",
    settings: ({ node }) => ({ node }),
    reach: [],
    want: WORKS_EVERYWHERE,
  },
  {
    network: "peer-elsewhere",
    behavior: "the peer of the pod NIC is in another namespace than the node's",
    projects: "meshnet-cni, Open vSwitch in a namespace of its own",
    source: "meshnet-cni, plugin/meshnet.go",
    settings: (places) => ({
      ...ANY_MAC,
      node: places.elsewhere,
      ipam: hostLocal(places, ["10.119.14.0/24"]),
    }),
    reach: ["10.119.14.1"],
    want: {
      ...WORKS_EVERYWHERE,
      "swap to": UNMET_MAC,
      restart: NEW_MAC,
      migration: OTHER_ADDRESSES,
    },
  },
];
