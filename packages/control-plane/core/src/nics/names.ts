// SPDX-License-Identifier: Apache-2.0
// Names of an interface's links and device. Source: KubeVirt network/namescheme, network/link/names.go.
import { isDefaultNetwork, type Network } from "@patchbay/api";
import { sha256Hex } from "./sha256.ts";

/** NIC of the pod's default network. Source: KubeVirt namescheme.PrimaryPodInterfaceName. */
export const DEFAULT_POD_INTERFACE = "eth0";
/** Hex digits in a link name: IFNAMSIZ - 1 (15), less 4 for KubeVirt's "-nic". */
const HASH_LENGTH = 11;
const POD_PREFIX = "pod";
const EXTRA_PREFIX = "bnd";
const TAP_PREFIX = "tap";
const DEFAULT_TAP = "tap0";

/** Names of all that is created for one interface. Link names have at most 15 characters. */
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

/** The pod NIC: `eth0`, or `pod` and the start of the hash of the network's name in the VM. */
export function podInterfaceNameOf(network: Network): string {
  return isDefaultNetwork(network)
    ? DEFAULT_POD_INTERFACE
    : POD_PREFIX + sha256Hex(network.name).slice(0, HASH_LENGTH);
}

/**
 * The pod NIC of the additional network that a registered binding needs. `podInterfaceName` is the interface's own NIC.
 * KubeVirt does not set the name, so CNI derives it from the position in the annotation, which changes while a pod runs.
 */
export function buildExtraInterfaceName(podInterfaceName: string): string {
  return `${EXTRA_PREFIX}${withoutPodPrefix(podInterfaceName)}`;
}

/** The pod NIC for an interface whose usual NIC is still on another network. Interface names contain no slash. */
export function buildSpareInterfaceName(ifaceName: string, networkName: string): string {
  return POD_PREFIX + sha256Hex(`${ifaceName}/${networkName}`).slice(0, HASH_LENGTH);
}

export function isExtraInterfaceName(name: string): boolean {
  return /^bnd(?:[0-9a-f]{11}|eth0)$/.test(name);
}

export function isOwnPodInterfaceName(name: string): boolean {
  return /^(?:(?:pod|bnd)[0-9a-f]{11}|bndeth0)$/.test(name);
}

/** The pod NIC that a bridge or tap named by {@link namesOf} belongs to. Undefined for other names. */
export function podInterfaceOfLink(name: string): string | undefined {
  const [, bridged, tapped] = /^(?:k6t-(eth0|[0-9a-f]{11})|tap(0|[0-9a-f]{11}))$/.exec(name) ?? [];
  if (tapped !== undefined) return podInterfaceOfTap(name);
  if (bridged === undefined) return undefined;
  return bridged === DEFAULT_POD_INTERFACE ? bridged : POD_PREFIX + bridged;
}

export function isOwnLinkName(name: string): boolean {
  return podInterfaceOfLink(name) !== undefined;
}

/** Prefix of user aliases. Source: KubeVirt; libvirt preserves no others. */
const ALIAS_PREFIX = "ua-";

/** KubeVirt's name for a pod NIC that is a port of the guest's bridge. */
export function buildMovedName(podInterfaceName: string): string {
  return `${withoutPodPrefix(podInterfaceName)}-nic`;
}

export function toAlias(ifaceName: string): string {
  return `${ALIAS_PREFIX}${ifaceName}`;
}

/** The interface of a device alias. Undefined for aliases that libvirt assigned. */
export function nameOfAlias(alias: string): string | undefined {
  return alias.startsWith(ALIAS_PREFIX) ? alias.slice(ALIAS_PREFIX.length) : undefined;
}

export function namesOf(ifaceName: string, podInterfaceName: string): IfaceNames {
  return {
    podInterfaceName,
    bridgeName: `k6t-${withoutPodPrefix(podInterfaceName)}`,
    tapName: `${TAP_PREFIX}${podInterfaceName.slice(POD_PREFIX.length)}`,
    alias: toAlias(ifaceName),
  };
}

/** The tap that we create for an interface. It keeps its name during a network swap. */
export function ownTapName(ifaceName: string, podInterfaceName: string): string {
  return isOwnPodInterfaceName(podInterfaceName)
    ? TAP_PREFIX + sha256Hex(ifaceName).slice(0, HASH_LENGTH)
    : namesOf(ifaceName, podInterfaceName).tapName;
}

/** The pod NIC of a tap. Inverse of {@link namesOf}. */
export function podInterfaceOfTap(tapName: string): string {
  return tapName === DEFAULT_TAP
    ? DEFAULT_POD_INTERFACE
    : POD_PREFIX + tapName.slice(TAP_PREFIX.length);
}
