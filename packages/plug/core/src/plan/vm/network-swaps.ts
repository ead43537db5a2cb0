// SPDX-License-Identifier: Apache-2.0
// Which NICs of a running guest have their network swapped, and what they bring along.
import {
  isAbsent,
  isDefaultNetwork,
  type BindingRegistry,
  type Iface,
  type Network,
} from "@patchbay/api";
import { bindingOf } from "../../bindings/binding-of.ts";
import type { BindingKind } from "../../bindings/binding.ts";
import { BINDINGS } from "../../bindings/table.ts";
import { findByName, type Nics } from "../../spec/nics.ts";

/** What the VM wants, what its VMI has, and which bindings there are beside ours. */
export interface Sides {
  readonly desired: Nics;
  readonly actual: Nics;
  readonly bindings: BindingRegistry;
}

/** What an iface asks of its network, and of no other. */
export const OF_NETWORK = ["ips", "ipamClaimName", "cniArgs"] as const;

function isSecondaryNetwork(network: Network | undefined): network is Network {
  return network?.multus !== undefined && !isDefaultNetwork(network);
}

/** How the iface is bound, if it stays and its network can be another while the guest runs. */
function swappableKind(
  { networks, ifaces }: Nics,
  name: string,
  bindings: BindingRegistry,
): BindingKind | undefined {
  const iface = findByName(ifaces, name);
  if (iface === undefined || isAbsent(iface)) return undefined;
  const { kind } = bindingOf(iface, findByName(networks, name), bindings);
  return kind !== "refused" && BINDINGS[kind].live.network ? kind : undefined;
}

/**
 * The network that a NIC of a running guest is to be on after a network swap, the device untouched; undefined: none, or
 * one that cannot be had while the guest runs.
 */
export function networkSwapOf(
  { desired, actual, bindings }: Sides,
  name: string,
): Network | undefined {
  const [to, from] = [desired, actual].map(({ networks }) => findByName(networks, name));
  if (!isSecondaryNetwork(to) || !isSecondaryNetwork(from)) return undefined;
  if (to.multus?.networkName === from.multus?.networkName) return undefined;
  const [after, before] = [desired, actual].map((nics) => swappableKind(nics, name, bindings));
  return after !== undefined && after === before ? to : undefined;
}

/** The iface with what it asks of its new network. */
function asAskedOf(current: Iface, wanted: Iface | undefined): Iface {
  const isKept = ([key]: readonly [string, unknown]): boolean =>
    !OF_NETWORK.some((field) => field === key);
  const asked = OF_NETWORK.flatMap((field) =>
    wanted?.[field] === undefined ? [] : [[field, wanted[field]] as const],
  );
  const kept = Object.entries(current).filter(isKept);
  // Every member but those is the iface's own, and those are an iface's.
  return Object.fromEntries([...kept, ...asked]) as Iface;
}

/** With one NIC on its new network. */
function withNetworkSwap(nics: Nics, network: Network, desired: Nics): Nics {
  const { name } = network;
  return {
    networks: nics.networks.map((each) => (each.name === name ? network : each)),
    ifaces: nics.ifaces.map((each) =>
      each.name === name ? asAskedOf(each, findByName(desired.ifaces, name)) : each,
    ),
  };
}

/** The actual side after the network swaps: all at once if the rules allow it, else those that they allow. */
export function withNetworkSwaps(sides: Sides, mayBe: (nics: Nics) => boolean): Nics {
  const { desired, actual } = sides;
  const swaps = actual.ifaces.flatMap(({ name }) => networkSwapOf(sides, name) ?? []);
  const swap = (nics: Nics, network: Network): Nics => withNetworkSwap(nics, network, desired);
  const all = swaps.reduce(swap, actual);
  if (swaps.length === 0 || mayBe(all)) return all;
  return swaps.reduce((nics, network) => {
    const next = swap(nics, network);
    return mayBe(next) ? next : nics;
  }, actual);
}
