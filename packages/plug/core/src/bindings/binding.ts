// SPDX-License-Identifier: Apache-2.0
// What a way of binding an iface to its network is: the same few answers of each.
import {
  isLinkLocal,
  natPrefixOf,
  networkOf,
  parseIp,
  printAddress,
  type Iface,
  type Network,
  type IpPrefix,
} from "@patchbay/api";
import {
  leaseOfRemembered,
  serversOf,
  leaseBehindPod,
  type GuestLease,
  type RememberedAddresses,
} from "../addresses/lease.ts";
import type {
  SeenWiring,
  BridgeWiring,
  PodAnswers,
  ForwardedPorts,
  MasqueradeWiring,
  NatSubnet,
} from "./pod-wiring.ts";
import { VHOST_USER } from "./resolve-binding.ts";

/** Every way that is built. The last three are asked for by the name of a plugin that the cluster has registered. */
export type BindingKind = "bridge" | "masquerade" | "managedTap" | "tap" | "vhostuser" | "hook";

/** How an iface is bound. */
export interface Binding {
  readonly kind: BindingKind;
  /** NAME, or NAMESPACE/NAME, of a network definition that the pod joins beside the iface's own network. */
  readonly extraNetwork?: string;
  /** A hook is asked about it at the guest's start, and joins no pod that runs. */
  readonly hasHook?: true;
}

/** Why an iface gets no NIC. */
export interface BindingRefusal {
  readonly kind: "refused";
  /** The field, below the iface. */
  readonly field: string;
  /** Stable, in CamelCase; listed in docs/reference/phases.md. */
  readonly reason: "BindingNotSupported" | "FieldNotSupported";
  /** No full sentence: the field comes before it. */
  readonly message: string;
  /** How the links look that it has all the same; absent where nobody has looked. */
  readonly left?: BindingKind;
}

/** What a wiring is made from. */
export interface WiringFacts {
  readonly podInterfaceName: string;
  readonly bridgeName: string;
  readonly tapName: string;
  /** The guest's. */
  readonly mac: string;
  /** Bytes; the pod NIC's. */
  readonly mtu: number;
  /** The pod NIC's, ADDRESS/LENGTH. */
  readonly podAddresses: readonly string[];
  /** Absent when it was deleted. */
  readonly iface?: Iface;
  readonly network?: Network;
  /** What the pod NIC had before it was wired. */
  readonly remembered?: RememberedAddresses;
}

/** What of an iface with this binding can be changed while the guest runs. */
interface LiveChanges {
  /** It comes and goes. */
  readonly plug: boolean;
  /** Its link goes up and down. */
  readonly link: boolean;
  /** It joins another network, and the device stays. */
  readonly network: boolean;
}

/** One way of binding. */
export interface BindingModule {
  readonly kind: BindingKind;
  /** What it needs of the kernel in the pod; undefined: nothing. */
  readonly wiringOf: (facts: WiringFacts) => SeenWiring | undefined;
  /** The tap that the device opens, of the links that are there (by name); empty: it opens none. */
  readonly tapOf: (
    names: Pick<WiringFacts, "podInterfaceName" | "tapName">,
    links: ReadonlySet<string>,
  ) => string;
  readonly live: LiveChanges;
  /** The guest may have another MAC than CNI gave the pod NIC. */
  readonly takesAnyMac: boolean;
  /** Wiring takes the addresses from the pod NIC: they are written down before. */
  readonly takesAddresses: boolean;
  /** What the pod gives the guest by DHCP; undefined: nothing, and it leaves others to do so. */
  readonly leaseOf: (facts: WiringFacts) => GuestLease | undefined;
  /** Whose addresses the status shows: those that the guest has, or the pod's, behind which the guest is hidden. */
  readonly addressesOf: "guest" | "pod";
}

/** Where the network gave the NIC addresses, the pod hands them on. */
function answersOf({ remembered }: WiringFacts): PodAnswers | undefined {
  const lease = leaseOfRemembered(remembered);
  if (lease === undefined) return undefined;
  const gatewayMac = lease.ipv6?.isRouter === true ? remembered?.gatewayMac : undefined;
  return { addresses: serversOf(lease), ...(gatewayMac === undefined ? {} : { gatewayMac }) };
}

/** Bridge and tap around the pod NIC, and nobody in the pod who answers the guest. */
function plainBridgeOf(facts: WiringFacts): Omit<BridgeWiring, "owner" | "queues"> {
  const { podInterfaceName, bridgeName, tapName, mac, mtu } = facts;
  return { kind: "bridge", podInterfaceName, bridgeName, tapName, mac, mtu };
}

const BRIDGE: BindingModule = {
  kind: "bridge",
  wiringOf: (facts) => {
    const answers = answersOf(facts);
    return { ...plainBridgeOf(facts), ...(answers === undefined ? {} : { answers }) };
  },
  tapOf: ({ tapName }) => tapName,
  live: { plug: true, link: true, network: true },
  takesAnyMac: true,
  takesAddresses: true,
  leaseOf: ({ remembered }) => leaseOfRemembered(remembered),
  addressesOf: "guest",
};

function protocolOf(text: string | undefined): ForwardedPorts["protocol"] {
  return text?.toLowerCase() === "udp" ? "udp" : "tcp";
}

/** Which ports of the pod are the guest's; empty: all. */
function portsOf(iface: Iface | undefined): readonly ForwardedPorts[] {
  const single = (iface?.ports ?? []).map(({ port, protocol }) => ({
    protocol: protocolOf(protocol),
    first: port,
    last: port,
  }));
  const ranges = (iface?.portRanges ?? []).map(({ protocol, start, end }) => ({
    protocol: protocolOf(protocol),
    first: start,
    last: end,
  }));
  return [...single, ...ranges];
}

function wiringOf(facts: WiringFacts): Omit<MasqueradeWiring, "owner" | "queues"> {
  const { podInterfaceName, bridgeName, tapName, mac, mtu } = facts;
  return {
    kind: "masquerade",
    podInterfaceName,
    bridgeName,
    tapName,
    mac,
    mtu,
    ...natSubnetsOf(facts.network, facts.podAddresses),
    ports: portsOf(facts.iface),
  };
}

const MASQUERADE: BindingModule = {
  kind: "masquerade",
  wiringOf,
  tapOf: ({ tapName }) => tapName,
  live: { plug: false, link: true, network: false },
  takesAnyMac: true,
  takesAddresses: false,
  leaseOf: (facts) => leaseBehindPod(wiringOf(facts)),
  addressesOf: "pod",
};

/** The gateway is the first host of the subnet, the guest the second. Source: KubeVirt pkg/network/link/address.go */
function natSubnetOf(prefix: IpPrefix): NatSubnet {
  const first = networkOf(prefix);
  const [gateway, guest] = ([1n, 2n] as const).map((step) =>
    printAddress({ version: first.version, value: first.value + step }),
  );
  return { gateway: `${gateway ?? ""}/${String(prefix.length)}`, guest: guest ?? "" };
}

/** The subnets of a guest behind a pod NIC with those addresses: one for each family that the NIC has. */
export function natSubnetsOf(
  network: Network | undefined,
  podAddresses: readonly string[],
): { readonly ipv4?: NatSubnet; readonly ipv6?: NatSubnet } {
  // Nobody beyond the link has another address, or is answered at it.
  const versions = podAddresses
    .filter((text) => !isLinkLocal(text))
    .flatMap((text) => parseIp(text) ?? []);
  const pod = network?.pod ?? {};
  const said = { 4: pod.vmNetworkCIDR, 6: pod.vmIPv6NetworkCIDR };
  const subnet = (version: 4 | 6): NatSubnet | undefined => {
    const prefix = natPrefixOf(said[version], version);
    const isThere = versions.some((address) => address.version === version);
    return isThere && prefix !== undefined ? natSubnetOf(prefix) : undefined;
  };
  const [ipv4, ipv6] = [subnet(4), subnet(6)];
  return { ...(ipv4 && { ipv4 }), ...(ipv6 && { ipv6 }) };
}

const MANAGED_TAP: BindingModule = {
  ...BRIDGE,
  kind: "managedTap",
  // The plugin made what it makes for one network, by the name of that one's NIC.
  live: { ...BRIDGE.live, network: false },
  wiringOf: plainBridgeOf,
  leaseOf: () => undefined,
};

const TAP: BindingModule = {
  kind: "tap",
  wiringOf: ({ podInterfaceName, tapName, mac, mtu }) => ({
    kind: "tap",
    podInterfaceName,
    tapName,
    mac,
    mtu,
  }),
  // Source: KubeVirt network/setup/podinterface.go: without a tap of that name the pod NIC is one.
  tapOf: ({ podInterfaceName, tapName }, links) =>
    links.has(tapName) ? tapName : podInterfaceName,
  // Another network would mean another tap, and so another device.
  live: { plug: true, link: true, network: false },
  // A macvtap lets through what is for its own MAC only.
  takesAnyMac: false,
  takesAddresses: false,
  leaseOf: () => undefined,
  addressesOf: "guest",
};

const HOOK: BindingModule = {
  ...TAP,
  kind: "hook",
  live: { plug: false, link: false, network: false },
};

/** What each way of binding means, wherever somebody asks. */
export const BINDINGS: Readonly<Record<BindingKind, BindingModule>> = {
  bridge: BRIDGE,
  masquerade: MASQUERADE,
  managedTap: MANAGED_TAP,
  tap: TAP,
  vhostuser: VHOST_USER,
  hook: HOOK,
};
