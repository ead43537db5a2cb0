// SPDX-License-Identifier: Apache-2.0
import type { Iface, Network } from "@patchbay/api";
import {
  isLinkLocal,
  parseNatPrefix,
  toNetworkAddress,
  parseIp,
  printAddress,
  type IpPrefix,
} from "@patchbay/api/values";
import {
  buildRecordedLease,
  listAnsweredNeighbors,
  listServerAddresses,
  buildMasqueradeLease,
  type GuestLease,
  type RememberedAddresses,
} from "../addresses/lease.ts";
import { withoutPrefixLength } from "./send-guard.ts";
import type {
  ArpReplies,
  ObservedWiring,
  BridgeWiring,
  PodReplies,
  ForwardedPorts,
  MasqueradeWiring,
  NatSubnet,
} from "./pod-wiring.ts";

/** Kinds of bindings. Registered plugins provide all kinds except `bridge` and `masquerade`. */
export type BindingKind = "bridge" | "masquerade" | "managedTap" | "tap" | "vhostuser" | "hook";

export interface Binding {
  readonly kind: BindingKind;
  /** NAME or NAMESPACE/NAME of an additional network from the binding's registration. The pod is attached to this network as well. */
  readonly extraNetwork?: string;
  /** Whether the binding has a hook. Hooks run only at the guest's start, so the NIC cannot be plugged into a running guest. */
  readonly hasHook?: true;
}

export interface BindingRefusal {
  readonly kind: "refused";
  /** Path of the refused field, relative to the interface. */
  readonly field: string;
  readonly reason: "BindingNotSupported" | "FieldNotSupported";
  /** Second part of the error message, after the field's path. */
  readonly message: string;
  /** Binding inferred from existing links of the interface. Unset if links were not observed. */
  readonly leftover?: BindingKind;
}

export interface WiringFacts {
  readonly podInterfaceName: string;
  readonly bridgeName: string;
  readonly tapName: string;
  readonly mac: string;
  /** MTU of the tap and of the guest's NIC, in bytes. */
  readonly mtu: number;
  /** Addresses of the pod NIC, as ADDRESS/LENGTH. */
  readonly podAddresses: readonly string[];
  /** Interface in the spec. Unset if the interface was deleted. */
  readonly iface?: Iface;
  readonly network?: Network;
  /** Addresses of the pod NIC before it was wired. */
  readonly remembered?: RememberedAddresses;
  readonly isMeshed?: true;
}

interface LiveChanges {
  readonly canPlug: boolean;
  readonly canSetLink: boolean;
  /** Whether a running guest's NIC can change to another network and retain its device. */
  readonly canSwapNetwork: boolean;
}

export interface BindingModule {
  readonly kind: BindingKind;
  readonly buildWiring: (facts: WiringFacts) => ObservedWiring | undefined;
  /** Returns the name of the tap that the device opens; empty for a device without a tap. `links` are the existing link names. */
  readonly findTap: (
    names: Pick<WiringFacts, "podInterfaceName" | "tapName">,
    links: ReadonlySet<string>,
  ) => string;
  readonly live: LiveChanges;
  /**
   * Source of the guest's MAC if the spec contains no MAC. `network`: the network's plugin. `guest`: the VM's previous guest, or the
   * pod NIC at the VM's first start. `random`: Patchbay chooses the MAC, because the network does not report one.
   */
  readonly macSource: "network" | "guest" | "random";
  /** Whether wiring removes the pod NIC's addresses. If so, virt-handler records the addresses before it wires the NIC. */
  readonly removesPodAddresses: boolean;
  /** Returns the lease that the pod offers. If it is undefined, the pod offers none and lets replies of other DHCP servers pass. */
  readonly buildLease: (facts: WiringFacts) => GuestLease | undefined;
  /** Source of the addresses in the status: the guest, or the pod if it translates the guest's addresses. */
  readonly addressSource: "guest" | "pod";
}

/** Maximum number of neighbors in each IP family whose addresses a bridge gets, so that the bridge answers for the neighbors. */
const NEIGHBORS_MAX = 16;

function planArpReplies(
  remembered: RememberedAddresses,
  { ipv4 }: GuestLease,
): ArpReplies | undefined {
  const neighbors = listAnsweredNeighbors(remembered, 4).slice(0, NEIGHBORS_MAX);
  if (ipv4 === undefined || neighbors.length === 0) return undefined;
  return { guestAddress: withoutPrefixLength(ipv4.address), neighbors };
}

/** Returns the settings of the pod's DHCP replies and router advertisements; undefined if the network assigned no addresses. */
function planReplies({ remembered }: WiringFacts): PodReplies | undefined {
  const lease = buildRecordedLease(remembered);
  if (remembered === undefined || lease === undefined) return undefined;
  const gatewayMac = lease.ipv6?.isRouter === true ? remembered.gatewayMac : undefined;
  const arp = planArpReplies(remembered, lease);
  const solicited =
    lease.ipv6 === undefined ? [] : listAnsweredNeighbors(remembered, 6).slice(0, NEIGHBORS_MAX);
  return {
    addresses: [
      ...listServerAddresses(lease),
      ...(arp?.neighbors ?? []).map(({ address }) => `${address}/32`),
      ...solicited.map(({ address }) => `${address}/128`),
    ],
    ...(gatewayMac === undefined ? {} : { gatewayMac }),
    ...(arp === undefined ? {} : { arp }),
    ...(solicited.length === 0 ? {} : { solicited }),
  };
}

function toBridgeWiring(facts: WiringFacts): Omit<BridgeWiring, "owner" | "queues"> {
  const { podInterfaceName, bridgeName, tapName, mac, mtu } = facts;
  return { kind: "bridge", podInterfaceName, bridgeName, tapName, mac, mtu };
}

/** Binding that bridges the guest to the network. The guest takes over the addresses of the pod NIC. */
const BRIDGE: BindingModule = {
  kind: "bridge",
  buildWiring: (facts) => {
    const replies = planReplies(facts);
    return { ...toBridgeWiring(facts), ...(replies === undefined ? {} : { replies }) };
  },
  findTap: ({ tapName }) => tapName,
  live: { canPlug: true, canSetLink: true, canSwapNetwork: true },
  macSource: "network",
  removesPodAddresses: true,
  buildLease: ({ remembered }) => buildRecordedLease(remembered),
  addressSource: "guest",
};

function parseProtocol(text: string | undefined): ForwardedPorts["protocol"] {
  return text?.toLowerCase() === "udp" ? "udp" : "tcp";
}

function listForwardedPorts(iface: Iface | undefined): readonly ForwardedPorts[] {
  const single = (iface?.ports ?? []).map(({ port, protocol }) => ({
    protocol: parseProtocol(protocol),
    first: port,
    last: port,
  }));
  const ranges = (iface?.portRanges ?? []).map(({ protocol, start, end }) => ({
    protocol: parseProtocol(protocol),
    first: start,
    last: end,
  }));
  return [...single, ...ranges];
}

function planMesh({ isMeshed, podAddresses }: WiringFacts): Pick<MasqueradeWiring, "mesh"> {
  if (isMeshed !== true) return {};
  const podIpv4 = podAddresses
    .map(withoutPrefixLength)
    .find((address) => parseIp(address)?.version === 4 && !isLinkLocal(address));
  return { mesh: podIpv4 === undefined ? {} : { podIpv4 } };
}

function buildMasqueradeWiring(facts: WiringFacts): Omit<MasqueradeWiring, "owner" | "queues"> {
  const { podInterfaceName, bridgeName, tapName, mac, mtu } = facts;
  return {
    kind: "masquerade",
    podInterfaceName,
    bridgeName,
    tapName,
    mac,
    mtu,
    ...planNatSubnets(facts.network, facts.podAddresses),
    ports: listForwardedPorts(facts.iface),
    ...planMesh(facts),
  };
}

const MASQUERADE: BindingModule = {
  kind: "masquerade",
  buildWiring: buildMasqueradeWiring,
  findTap: ({ tapName }) => tapName,
  live: { canPlug: false, canSetLink: true, canSwapNetwork: false },
  macSource: "guest",
  removesPodAddresses: false,
  buildLease: (facts) => buildMasqueradeLease(buildMasqueradeWiring(facts)),
  addressSource: "pod",
};

/** Assigns the subnet's first host address to the gateway and the second to the guest. Source: KubeVirt pkg/network/link/address.go */
function toNatSubnet(prefix: IpPrefix): NatSubnet {
  const first = toNetworkAddress(prefix);
  const [gateway, guest] = ([1n, 2n] as const).map((offset) =>
    printAddress({ version: first.version, value: first.value + offset }),
  );
  return { gateway: `${gateway ?? ""}/${String(prefix.length)}`, guest: guest ?? "" };
}

export function planNatSubnets(
  network: Network | undefined,
  podAddresses: readonly string[],
): { readonly ipv4?: NatSubnet; readonly ipv6?: NatSubnet } {
  // Link-local pod addresses are not translated, because they are unreachable beyond the link.
  const podIps = podAddresses
    .filter((text) => !isLinkLocal(text))
    .flatMap((text) => parseIp(text) ?? []);
  const pod = network?.pod ?? {};
  const configured = { 4: pod.vmNetworkCIDR, 6: pod.vmIPv6NetworkCIDR };
  const planSubnet = (version: 4 | 6): NatSubnet | undefined => {
    const prefix = parseNatPrefix(configured[version], version);
    const hasFamily = podIps.some((address) => address.version === version);
    return hasFamily && prefix !== undefined ? toNatSubnet(prefix) : undefined;
  };
  const [ipv4, ipv6] = [planSubnet(4), planSubnet(6)];
  return { ...(ipv4 && { ipv4 }), ...(ipv6 && { ipv6 }) };
}

/** Like `bridge`, but a registered plugin handles the network's addresses. Source: KubeVirt DomainAttachmentType ManagedTap. */
const MANAGED_TAP: BindingModule = {
  ...BRIDGE,
  kind: "managedTap",
  // A swap is impossible: the binding's plugin finds the pod NIC by its name, and the new network's pod NIC would have another name.
  live: { ...BRIDGE.live, canSwapNetwork: false },
  buildWiring: toBridgeWiring,
  buildLease: () => undefined,
};

/** Binding whose tap a registered plugin creates. Source: KubeVirt DomainAttachmentType Tap. */
const TAP: BindingModule = {
  kind: "tap",
  buildWiring: ({ podInterfaceName, tapName, mac, mtu }) => ({
    kind: "tap",
    podInterfaceName,
    tapName,
    mac,
    mtu,
  }),
  // If no tap named `tapName` exists, the pod NIC itself is the tap. Source: KubeVirt network/setup/podinterface.go
  findTap: ({ podInterfaceName, tapName }, links) =>
    links.has(tapName) ? tapName : podInterfaceName,
  // Each network's plugin creates another tap, so a network swap would need a new device.
  live: { canPlug: true, canSetLink: true, canSwapNetwork: false },
  // A tap has its own MAC, so the guest's MAC cannot be read from it.
  macSource: "random",
  removesPodAddresses: false,
  buildLease: () => undefined,
  addressSource: "guest",
};

/** Binding with a vhost-user socket of a dataplane process on the node. Frames do not pass through the kernel. */
const VHOST_USER: BindingModule = {
  kind: "vhostuser",
  buildWiring: () => undefined,
  findTap: () => "",
  // libvirt has no link state for vhost-user. Each network has its own socket, so a swap would need a new device.
  live: { canPlug: true, canSetLink: false, canSwapNetwork: false },
  macSource: "random",
  removesPodAddresses: false,
  buildLease: () => undefined,
  addressSource: "guest",
};

/** Binding whose NIC a hook creates at the guest's start. Source: KubeVirt, a binding plugin without domainAttachmentType. */
const HOOK: BindingModule = {
  ...TAP,
  kind: "hook",
  live: { canPlug: false, canSetLink: false, canSwapNetwork: false },
};

export const BINDINGS: Readonly<Record<BindingKind, BindingModule>> = {
  bridge: BRIDGE,
  masquerade: MASQUERADE,
  managedTap: MANAGED_TAP,
  tap: TAP,
  vhostuser: VHOST_USER,
  hook: HOOK,
};
