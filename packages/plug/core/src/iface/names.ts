// SPDX-License-Identifier: Apache-2.0
// What the links and the device of an iface are called. Source: KubeVirt network/namescheme, network/link/names.go.
import { isDefaultNetwork, type Network } from "@patchbay/api";
import { sha256Hex } from "./sha256.ts";

/** NIC of the pod's default network. Source: KubeVirt namescheme.PrimaryPodInterfaceName. */
export const DEFAULT_POD_INTERFACE = "eth0";
/** 15 (IFNAMSIZ - 1) - 4 ("-nic" in KubeVirt): hex digits of the hash in a link name. */
const HASH_LENGTH = 11;
const POD_PREFIX = "pod";
const EXTRA_PREFIX = "bnd";
const TAP_PREFIX = "tap";
const DEFAULT_TAP = "tap0";

/** Names of everything that is made for one iface; links have at most 15 characters. */
export interface IfaceNames {
  readonly podInterfaceName: string;
  readonly bridgeName: string;
  readonly tapName: string;
  readonly alias: string;
}

function withoutPodPrefix(podInterfaceName: string): string {
  return podInterfaceName.startsWith(POD_PREFIX)
    ? podInterfaceName.slice(POD_PREFIX.length)
    : podInterfaceName;
}

/** NIC in the pod: `eth0`, or `pod` and the head of the hash of the network's name within the VM. */
export function podInterfaceNameOf(network: Network): string {
  return isDefaultNetwork(network)
    ? DEFAULT_POD_INTERFACE
    : POD_PREFIX + sha256Hex(network.name).slice(0, HASH_LENGTH);
}

/**
 * NIC in the pod of the network that a registered binding brings beside the iface's own, whose NIC is `podInterfaceName`.
 * KubeVirt names none, so that it is `net` and the place in the list; places change while a pod lives.
 */
export function extraInterfaceNameOf(podInterfaceName: string): string {
  return `${EXTRA_PREFIX}${withoutPodPrefix(podInterfaceName)}`;
}

/** NIC in the pod of an iface whose usual one is on another network still; names of ifaces have no slash. */
export function spareInterfaceNameOf(ifaceName: string, networkName: string): string {
  return POD_PREFIX + sha256Hex(`${ifaceName}/${networkName}`).slice(0, HASH_LENGTH);
}

/** Whether a pod NIC's name is that of a network that a registered binding brings. */
export function isExtraInterfaceName(name: string): boolean {
  return /^bnd(?:[0-9a-f]{11}|eth0)$/.test(name);
}

/** Whether a pod NIC's name is one that is given to the networks of a launcher, beside its default one. */
export function isOwnPodInterfaceName(name: string): boolean {
  return /^(?:(?:pod|bnd)[0-9a-f]{11}|bndeth0)$/.test(name);
}

/**
 * The NIC in the pod around which a link of that name would be: the bridge or the tap of {@link namesOf}; undefined for
 * names that are not of that form.
 */
export function podInterfaceOfLink(name: string): string | undefined {
  const [, bridged, tapped] = /^(?:k6t-(eth0|[0-9a-f]{11})|tap(0|[0-9a-f]{11}))$/.exec(name) ?? [];
  if (tapped !== undefined) return podInterfaceOfTap(name);
  if (bridged === undefined) return undefined;
  return bridged === DEFAULT_POD_INTERFACE ? bridged : POD_PREFIX + bridged;
}

/** Whether a link is called as those that we make. */
export function isOwnLinkName(name: string): boolean {
  return podInterfaceOfLink(name) !== undefined;
}

/** How aliases of ours begin. Source: KubeVirt; libvirt keeps no others. */
const ALIAS_PREFIX = "ua-";

/** What KubeVirt's virt-handler calls a pod's NIC once it is a port of the guest's bridge. */
export function movedNameOf(podInterfaceName: string): string {
  return `${withoutPodPrefix(podInterfaceName)}-nic`;
}

/** libvirt alias of the device. */
export function aliasOf(ifaceName: string): string {
  return `${ALIAS_PREFIX}${ifaceName}`;
}

/** The iface of which a device has that alias; undefined where the alias is libvirt's own. */
export function nameOfAlias(alias: string): string | undefined {
  return alias.startsWith(ALIAS_PREFIX) ? alias.slice(ALIAS_PREFIX.length) : undefined;
}

/** All names of an iface whose NIC in the pod is `podInterfaceName`. */
export function namesOf(ifaceName: string, podInterfaceName: string): IfaceNames {
  return {
    podInterfaceName,
    bridgeName: `k6t-${withoutPodPrefix(podInterfaceName)}`,
    tapName: `${TAP_PREFIX}${podInterfaceName.slice(POD_PREFIX.length)}`,
    alias: aliasOf(ifaceName),
  };
}

/** The tap that is made for an iface: one for each, also during a network swap. */
export function madeTapOf(ifaceName: string, podInterfaceName: string): string {
  return isOwnPodInterfaceName(podInterfaceName)
    ? TAP_PREFIX + sha256Hex(ifaceName).slice(0, HASH_LENGTH)
    : namesOf(ifaceName, podInterfaceName).tapName;
}

/** The NIC in the pod whose tap has that name: the inverse of {@link namesOf}. */
export function podInterfaceOfTap(tapName: string): string {
  return tapName === DEFAULT_TAP
    ? DEFAULT_POD_INTERFACE
    : POD_PREFIX + tapName.slice(TAP_PREFIX.length);
}
