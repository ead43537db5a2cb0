// SPDX-License-Identifier: Apache-2.0
// Names of an interface's links and device. Source: KubeVirt network/namescheme, network/link/names.go.
import { isDefaultNetwork, type Network } from "@patchbay/api";
import { sha256Hex } from "./sha256.ts";

/** Name of the NIC on the pod's default network. Source: KubeVirt namescheme.PrimaryPodInterfaceName. */
export const DEFAULT_POD_INTERFACE = "eth0";
/** Number of hex digits in a link name. A name has at most 15 characters (IFNAMSIZ - 1), and KubeVirt's suffix `-nic` takes 4 of them. */
const HASH_LENGTH = 11;
const POD_PREFIX = "pod";
const EXTRA_PREFIX = "bnd";
const TAP_PREFIX = "tap";
const LIMITER_PREFIX = "lim";
const DEFAULT_TAP = "tap0";

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

/** Returns the pod NIC's name: `eth0`, or `pod` and the first digits of the SHA-256 of the network's name in the VM. */
export function buildPodInterfaceName(network: Network): string {
  return isDefaultNetwork(network)
    ? DEFAULT_POD_INTERFACE
    : POD_PREFIX + sha256Hex(network.name).slice(0, HASH_LENGTH);
}

/**
 * Returns the name of the second pod NIC for a registered binding with an additional network. `podInterfaceName` is the first
 * pod NIC. CNI's default name would depend on the position in the networks annotation, which may change while a pod runs.
 */
export function buildExtraInterfaceName(podInterfaceName: string): string {
  return `${EXTRA_PREFIX}${withoutPodPrefix(podInterfaceName)}`;
}

/** Returns the name of an interface's new pod NIC during a network swap. The old pod NIC still has the usual name. */
export function buildSwapInterfaceName(ifaceName: string, networkName: string): string {
  return POD_PREFIX + sha256Hex(`${ifaceName}/${networkName}`).slice(0, HASH_LENGTH);
}

export function isOwnPodInterfaceName(name: string): boolean {
  return /^(?:(?:pod|bnd)[0-9a-f]{11}|bndeth0)$/.test(name);
}

/**
 * Returns the name of the pod NIC for a bridge or tap name from {@link buildIfaceNames}, or for the name of the tap's
 * limiter; undefined for other names.
 */
export function parseLinkName(name: string): string | undefined {
  const [, bridgeSuffix, tapSuffix] =
    /^(?:k6t-(eth0|[0-9a-f]{11})|(?:tap|lim)(0|[0-9a-f]{11}))$/.exec(name) ?? [];
  if (tapSuffix !== undefined) return parseTapName(`${TAP_PREFIX}${tapSuffix}`);
  if (bridgeSuffix === undefined) return undefined;
  return bridgeSuffix === DEFAULT_POD_INTERFACE ? bridgeSuffix : POD_PREFIX + bridgeSuffix;
}

export function isOwnLinkName(name: string): boolean {
  return parseLinkName(name) !== undefined;
}

/** Prefix that libvirt requires in user-defined aliases. libvirt discards aliases without it. Source: KubeVirt; libvirt. */
const ALIAS_PREFIX = "ua-";

/** Returns KubeVirt's name for a pod NIC that is a port of the guest's bridge. */
export function buildRenamedNicName(podInterfaceName: string): string {
  return `${withoutPodPrefix(podInterfaceName)}-nic`;
}

export function toAlias(ifaceName: string): string {
  return `${ALIAS_PREFIX}${ifaceName}`;
}

/** Returns the interface name in a device alias; undefined for aliases that libvirt assigned. */
export function parseAlias(alias: string): string | undefined {
  return alias.startsWith(ALIAS_PREFIX) ? alias.slice(ALIAS_PREFIX.length) : undefined;
}

/** Pod NICs whose bridge and tap have KubeVirt's names. Drivers of resource claims may choose other names for pod NICs. */
const KUBEVIRT_NIC = /^(?:eth0|net\d{1,8}|pod(?!\d{1,8}$)[\w-]{1,11})$/;

/** Returns the name or, if it does not match {@link KUBEVIRT_NIC}, a hash: link names could otherwise be too long or not unique. */
function toLinkKey(podInterfaceName: string): string {
  return KUBEVIRT_NIC.test(podInterfaceName)
    ? podInterfaceName
    : POD_PREFIX + sha256Hex(podInterfaceName).slice(0, HASH_LENGTH);
}

export function buildIfaceNames(ifaceName: string, podInterfaceName: string): IfaceNames {
  const key = toLinkKey(podInterfaceName);
  return {
    podInterfaceName,
    bridgeName: `k6t-${withoutPodPrefix(key)}`,
    tapName: `${TAP_PREFIX}${key.slice(POD_PREFIX.length)}`,
    alias: toAlias(ifaceName),
  };
}

/** Returns the name of Patchbay's tap for an interface. A network swap does not change the name. */
export function buildTapName(ifaceName: string, podInterfaceName: string): string {
  return isOwnPodInterfaceName(podInterfaceName)
    ? TAP_PREFIX + sha256Hex(ifaceName).slice(0, HASH_LENGTH)
    : buildIfaceNames(ifaceName, podInterfaceName).tapName;
}

/** Returns the name of the ifb link in which frames from the tap wait while the guest exceeds its outbound limit. */
export function buildLimiterName(tapName: string): string {
  return LIMITER_PREFIX + tapName.slice(TAP_PREFIX.length);
}

export function parseTapName(tapName: string): string {
  return tapName === DEFAULT_TAP
    ? DEFAULT_POD_INTERFACE
    : POD_PREFIX + tapName.slice(TAP_PREFIX.length);
}
