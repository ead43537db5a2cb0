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
import { bindingOf } from "../../bindings/binding-of.ts";
import { BINDINGS } from "../../bindings/table.ts";
import { findByName, ifacesOf, nicsOf, withNics, type Nics } from "../../spec/nics.ts";
import { withNetworkSwaps, type Sides } from "./network-swaps.ts";

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
export interface Plug {
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
