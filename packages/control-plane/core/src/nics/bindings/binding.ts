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
  leaseFromRecorded,
  listServerAddresses,
  leaseForMasquerade,
  type GuestLease,
  type RememberedAddresses,
} from "../addresses/lease.ts";
import type {
  ObservedWiring,
  BridgeWiring,
  PodReplies,
  ForwardedPorts,
  MasqueradeWiring,
  NatSubnet,
} from "./pod-wiring.ts";

/** Kinds of bindings. The last four are registered plugins. */
export type BindingKind = "bridge" | "masquerade" | "managedTap" | "tap" | "vhostuser" | "hook";

export interface Binding {
  readonly kind: BindingKind;
  /** NAME or NAMESPACE/NAME of an additional network definition that the pod joins. */
  readonly extraNetwork?: string;
  /** Whether the binding has a hook, which is only called at the guest's start. Such a NIC cannot be plugged into a running guest. */
  readonly hasHook?: true;
}

export interface BindingRefusal {
  readonly kind: "refused";
  /** Path of the field below the interface. */
  readonly field: string;
  readonly reason: "BindingNotSupported" | "FieldNotSupported";
  /** Predicate of a message. Its subject, the field, precedes it. */
  readonly message: string;
  /** Binding of links that exist although the binding is refused. Unset if links were not observed. */
  readonly leftover?: BindingKind;
}

export interface WiringFacts {
  readonly podInterfaceName: string;
  readonly bridgeName: string;
  readonly tapName: string;
  /** The guest's MAC. */
  readonly mac: string;
  /** MTU of the pod NIC, in bytes. */
  readonly mtu: number;
  /** Addresses of the pod NIC, as ADDRESS/LENGTH. */
  readonly podAddresses: readonly string[];
  /** Unset if the interface was deleted. */
  readonly iface?: Iface;
  readonly network?: Network;
  /** Addresses of the pod NIC before it was wired. */
  readonly remembered?: RememberedAddresses;
}

interface LiveChanges {
  readonly plug: boolean;
  readonly link: boolean;
  /** Whether the network can be swapped while the device stays. */
  readonly network: boolean;
}

export interface BindingModule {
  readonly kind: BindingKind;
  readonly buildWiring: (facts: WiringFacts) => ObservedWiring | undefined;
  /** Returns the tap that the device opens, from the existing links; empty if it opens none. */
  readonly findTap: (
    names: Pick<WiringFacts, "podInterfaceName" | "tapName">,
    links: ReadonlySet<string>,
  ) => string;
  readonly live: LiveChanges;
  /** Whether the guest's MAC may differ from the pod NIC's. */
  readonly allowsOtherMac: boolean;
  /** Whether wiring removes the addresses from the pod NIC, so that they must be recorded first. */
  readonly removesPodAddresses: boolean;
  /** Returns undefined if the pod serves nothing and does not block other servers. */
  readonly buildLease: (facts: WiringFacts) => GuestLease | undefined;
  /** Source of the addresses in the status: the guest, or the pod if it translates the guest's addresses. */
  readonly addressSource: "guest" | "pod";
}

/** Returns the pod's replies to the guest, if the network assigned addresses for the pod to serve. */
function planReplies({ remembered }: WiringFacts): PodReplies | undefined {
  const lease = leaseFromRecorded(remembered);
  if (lease === undefined) return undefined;
  const gatewayMac = lease.ipv6?.isRouter === true ? remembered?.gatewayMac : undefined;
  return {
    addresses: listServerAddresses(lease),
    ...(gatewayMac === undefined ? {} : { gatewayMac }),
  };
}

function toBridgeWiring(facts: WiringFacts): Omit<BridgeWiring, "owner" | "queues"> {
  const { podInterfaceName, bridgeName, tapName, mac, mtu } = facts;
  return { kind: "bridge", podInterfaceName, bridgeName, tapName, mac, mtu };
}

/** Binding in which the guest replaces the pod NIC on the network. */
const BRIDGE: BindingModule = {
  kind: "bridge",
  buildWiring: (facts) => {
    const replies = planReplies(facts);
    return { ...toBridgeWiring(facts), ...(replies === undefined ? {} : { replies }) };
  },
  findTap: ({ tapName }) => tapName,
  live: { plug: true, link: true, network: true },
  allowsOtherMac: true,
  removesPodAddresses: true,
  buildLease: ({ remembered }) => leaseFromRecorded(remembered),
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
  };
}

/** Binding in which the guest's addresses are translated to the pod's. */
const MASQUERADE: BindingModule = {
  kind: "masquerade",
  buildWiring: buildMasqueradeWiring,
  findTap: ({ tapName }) => tapName,
  live: { plug: false, link: true, network: false },
  allowsOtherMac: true,
  removesPodAddresses: false,
  buildLease: (facts) => leaseForMasquerade(buildMasqueradeWiring(facts)),
  addressSource: "pod",
};

/** Assigns the subnet's first host address to the gateway and the second to the guest. Source: KubeVirt pkg/network/link/address.go */
function toNatSubnet(prefix: IpPrefix): NatSubnet {
  const first = toNetworkAddress(prefix);
  const [gateway, guest] = ([1n, 2n] as const).map((step) =>
    printAddress({ version: first.version, value: first.value + step }),
  );
  return { gateway: `${gateway ?? ""}/${String(prefix.length)}`, guest: guest ?? "" };
}

export function planNatSubnets(
  network: Network | undefined,
  podAddresses: readonly string[],
): { readonly ipv4?: NatSubnet; readonly ipv6?: NatSubnet } {
  // A link-local address is not reachable from beyond the link.
  const versions = podAddresses
    .filter((text) => !isLinkLocal(text))
    .flatMap((text) => parseIp(text) ?? []);
  const pod = network?.pod ?? {};
  const configured = { 4: pod.vmNetworkCIDR, 6: pod.vmIPv6NetworkCIDR };
  const subnet = (version: 4 | 6): NatSubnet | undefined => {
    const prefix = parseNatPrefix(configured[version], version);
    const hasFamily = versions.some((address) => address.version === version);
    return hasFamily && prefix !== undefined ? toNatSubnet(prefix) : undefined;
  };
  const [ipv4, ipv6] = [subnet(4), subnet(6)];
  return { ...(ipv4 && { ipv4 }), ...(ipv6 && { ipv6 }) };
}

/**
 * Like `bridge`, but a registered plugin prepares the network and handles its addresses.
 * Source: KubeVirt DomainAttachmentType ManagedTap.
 */
const MANAGED_TAP: BindingModule = {
  ...BRIDGE,
  kind: "managedTap",
  // The plugin prepared its setup for one network, by its NIC's name.
  live: { ...BRIDGE.live, network: false },
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
  // Without a tap of that name the pod NIC is a tap. Source: KubeVirt network/setup/podinterface.go
  findTap: ({ podInterfaceName, tapName }, links) =>
    links.has(tapName) ? tapName : podInterfaceName,
  // Another network has another tap and needs another device.
  live: { plug: true, link: true, network: false },
  // A macvtap passes only frames for its own MAC.
  allowsOtherMac: false,
  removesPodAddresses: false,
  buildLease: () => undefined,
  addressSource: "guest",
};

/**
 * Binding with a vhost-user socket, which a process on the node serves and the network's plugin names. Frames pass between
 * the guest's memory and that process, not through the kernel.
 */
const VHOST_USER: BindingModule = {
  kind: "vhostuser",
  buildWiring: () => undefined,
  findTap: () => "",
  // libvirt has no link state for vhost-user, and another network has another socket.
  live: { plug: true, link: false, network: false },
  allowsOtherMac: true,
  removesPodAddresses: false,
  buildLease: () => undefined,
  addressSource: "guest",
};

/**
 * Binding whose NIC a hook creates at the guest's start. Patchbay creates no links and no device.
 * Source: KubeVirt, a binding plugin without domainAttachmentType.
 */
const HOOK: BindingModule = {
  ...TAP,
  kind: "hook",
  live: { plug: false, link: false, network: false },
};

export const BINDINGS: Readonly<Record<BindingKind, BindingModule>> = {
  bridge: BRIDGE,
  masquerade: MASQUERADE,
  managedTap: MANAGED_TAP,
  tap: TAP,
  vhostuser: VHOST_USER,
  hook: HOOK,
};
