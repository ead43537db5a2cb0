// SPDX-License-Identifier: Apache-2.0
// Which networks and ifaces the VMI of a VM must have now: the VM is the one source of truth.
import {
  isAbsent,
  isDefaultNetwork,
  validateVmiSpec,
  type BindingRegistry,
  type Iface,
  type Network,
  type VirtualMachineInstance,
  type VmiSpec,
} from "@patchbay/api";
import { bindingOf } from "../../bindings/resolve-binding.ts";
import { BINDINGS, type BindingKind } from "../../bindings/binding.ts";
import { findByName, ifacesOf, nicsOf, withNics, type Nics } from "../../spec/nics.ts";

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
function withNetworkSwaps(sides: Sides, mayBe: (nics: Nics) => boolean): Nics {
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

function isOnDefaultNetwork(nics: Nics, name: string): boolean {
  const network = findByName(nics.networks, name);
  return network !== undefined && isDefaultNetwork(network);
}

function withState(iface: Iface, state: string | undefined): Iface {
  const rest = Object.fromEntries(Object.entries(iface).filter(([key]) => key !== "state"));
  // Every member but the state is the iface's own.
  return { ...(rest as Iface), ...(state === undefined ? {} : { state }) };
}

/** Whether nothing of the iface is left in the pod or on the node, as far as anybody has reported. */
function isUnplugComplete(vmi: VirtualMachineInstance, name: string): boolean {
  return (
    findByName(vmi.status?.attachments, name) === undefined &&
    findByName(vmi.status?.interfaces, name) === undefined
  );
}

/** It stays, and its link follows. */
function withLinkOf(current: Iface, wanted: Iface | undefined): Iface {
  return wanted === undefined || isAbsent(wanted) ? current : withState(current, wanted.state);
}

/** Whether a running guest can get the iface, as far as its binding tells. */
function canBePlugged(
  iface: Iface,
  networks: readonly Network[],
  bindings: BindingRegistry,
): boolean {
  const binding = bindingOf(iface, findByName(networks, iface.name), bindings);
  if (binding.kind === "refused" || binding.hasHook === true) return false;
  return BINDINGS[binding.kind].live.plug;
}

/** The VMI's entry as the VM wants it: its state, unless the VM means another NIC than the one that leaves. */
function syncedIface(current: Iface, { desired, actual, bindings }: Sides): Iface {
  const wanted = findByName(desired.ifaces, current.name);
  if (isOnDefaultNetwork(actual, current.name)) return withLinkOf(current, wanted);
  if (wanted === undefined) return withState(current, "absent");
  const sameNetwork =
    findByName(desired.networks, current.name)?.multus?.networkName ===
    findByName(actual.networks, current.name)?.multus?.networkName;
  const waits = !sameNetwork || !canBePlugged(wanted, desired.networks, bindings);
  if (waits && isAbsent(current)) return current;
  return withState(current, wanted.state);
}

/** Whether a running guest can get the iface: it is a NIC on a network beside the pod's default one. */
export function canPlug(iface: Iface, desired: Nics, bindings: BindingRegistry): boolean {
  return (
    !isAbsent(iface) &&
    canBePlugged(iface, desired.networks, bindings) &&
    findByName(desired.networks, iface.name)?.multus !== undefined &&
    !isOnDefaultNetwork(desired, iface.name)
  );
}

/** A NIC that the guest gets while it runs: its network, and its place in the list of ifaces. */
interface Plug {
  readonly network: Network;
  readonly iface: Iface;
}

/** Networks and ifaces with one more at the end. */
export function withPlug(nics: Nics, { network, iface }: Plug): Nics {
  return { networks: [...nics.networks, network], ifaces: [...nics.ifaces, iface] };
}

function pluggable({ desired, actual, bindings }: Sides): readonly Plug[] {
  return desired.ifaces
    .filter(
      (iface) =>
        canPlug(iface, desired, bindings) && findByName(actual.ifaces, iface.name) === undefined,
    )
    .flatMap((iface) => {
      const network = findByName(desired.networks, iface.name);
      return network === undefined ? [] : [{ network, iface }];
    });
}

/** Networks and ifaces without what is absent. */
function present({ networks, ifaces }: Nics): Nics {
  const absent = new Set(ifaces.filter(isAbsent).map(({ name }) => name));
  return {
    networks: networks.filter(({ name }) => !absent.has(name)),
    ifaces: ifaces.filter(({ name }) => !absent.has(name)),
  };
}

/** Whether a VMI of that spec may have those networks and ifaces. */
function isAllowed(spec: VmiSpec, { networks, ifaces }: Nics): boolean {
  return validateVmiSpec(withNics(spec, networks, ifaces), "spec").length === 0;
}

/** The ifaces that are not over, with their networks. */
function withoutEnded(nics: Nics, isOver: (iface: Iface) => boolean): Nics {
  const gone = new Set(nics.ifaces.filter(isOver).map(({ name }) => name));
  return {
    ifaces: nics.ifaces.filter(({ name }) => !gone.has(name)),
    networks: nics.networks.filter(({ name }) => !gone.has(name)),
  };
}

function withoutComplete(vmi: VirtualMachineInstance, nics: Nics): Nics {
  return withoutEnded(nics, (iface) => isAbsent(iface) && isUnplugComplete(vmi, iface.name));
}

/** A change of a VMI's networks and ifaces. */
export interface NicsChange {
  /** What is there already, as it is to be. */
  readonly kept: Nics;
  /** What comes, in the VM's order. */
  readonly plugs: readonly Plug[];
}

/**
 * What becomes of the networks and ifaces of a VMI that a VM owns: entries that the VM added are appended in the VM's
 * order, deleted ones become `absent`, and an absent entry goes when nothing is left of it; one whose network is another
 * moves to it. The default network never changes live, but for the link of its iface. A NIC whose place is still taken
 * (its MAC, for example, by an iface that is leaving, or by one that changes at the next start only) comes when that is
 * free.
 */
export function planNicsChange(
  template: VmiSpec,
  vmi: VirtualMachineInstance,
  bindings: BindingRegistry,
): NicsChange {
  const desired = nicsOf(template);
  const actual = nicsOf(vmi.spec);
  // What the rules refuse anyway is left to admission, which says why.
  let mayWait: boolean | undefined;
  const mayBe = (nics: Nics): boolean => {
    mayWait ??= isAllowed(vmi.spec, present(desired));
    return !mayWait || isAllowed(vmi.spec, nics);
  };
  const sides = { desired, actual, bindings };
  const followed = withoutComplete(vmi, {
    ifaces: actual.ifaces.map((iface) => syncedIface(iface, sides)),
    networks: actual.networks,
  });
  const kept = withNetworkSwaps({ ...sides, actual: followed }, mayBe);
  const plugs: Plug[] = [];
  for (const plug of pluggable(sides)) {
    if (mayBe(withPlug(plugs.reduce(withPlug, kept), plug))) plugs.push(plug);
  }
  return { kept, plugs };
}

/** Networks and ifaces of a VMI that no VM changes now: only what has been unplugged goes. */
export function planOwnNics(vmi: VirtualMachineInstance): Nics {
  return withoutComplete(vmi, nicsOf(vmi.spec));
}

/** Networks and ifaces that a VM's template keeps: an absent entry goes when the VMI (if any) has nothing of it. */
export function planTemplateNics(template: VmiSpec, vmi: VirtualMachineInstance | undefined): Nics {
  const nics = nicsOf(template);
  const isOver = (iface: Iface): boolean =>
    isAbsent(iface) &&
    (vmi === undefined ||
      (findByName(ifacesOf(vmi.spec), iface.name) === undefined &&
        isUnplugComplete(vmi, iface.name)));
  return withoutEnded(nics, isOver);
}
