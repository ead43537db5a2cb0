// SPDX-License-Identifier: Apache-2.0
// Networks and interfaces of a VMI, as its VM declares them, and the patch that writes them.
import {
  isAbsent,
  isDefaultNetwork,
  type BindingRegistry,
  type Iface,
  type Network,
  type VirtualMachineInstance,
  type VmiSpec,
} from "@patchbay/api";
import type { JsonPatchOperation } from "@patchbay/api/json";
import type { KubeObject } from "@patchbay/api/kubernetes";
import { validateVmiSpec } from "@patchbay/api/validate";
import { resolveBinding } from "./bindings/resolve-binding.ts";
import { BINDINGS, type BindingKind } from "./bindings/binding.ts";
import { findByName, ifacesOf, nicsOf, withNics, type Nics } from "./nics.ts";
import { versionTest } from "../status/patch.ts";

export interface Sides {
  readonly desired: Nics;
  readonly actual: Nics;
  readonly bindings: BindingRegistry;
}

/** Fields of an interface that belong to its network and change with it. */
export const NETWORK_FIELDS = ["ips", "ipamClaimName", "cniArgs"] as const;

function isSecondaryNetwork(network: Network | undefined): network is Network {
  return network?.multus !== undefined && !isDefaultNetwork(network);
}

/** Returns the binding if it supports network swaps and the interface is not being unplugged. */
function findSwappableKind(
  { networks, ifaces }: Nics,
  name: string,
  bindings: BindingRegistry,
): BindingKind | undefined {
  const iface = findByName(ifaces, name);
  if (iface === undefined || isAbsent(iface)) return undefined;
  const { kind } = resolveBinding(iface, findByName(networks, name), bindings);
  return kind !== "refused" && BINDINGS[kind].live.network ? kind : undefined;
}

/** Returns the network to which an interface is swapped; undefined if the network is unchanged or the change needs a restart. */
export function findNetworkSwap(
  { desired, actual, bindings }: Sides,
  name: string,
): Network | undefined {
  const [to, from] = [desired, actual].map(({ networks }) => findByName(networks, name));
  if (!isSecondaryNetwork(to) || !isSecondaryNetwork(from)) return undefined;
  if (to.multus?.networkName === from.multus?.networkName) return undefined;
  const [after, before] = [desired, actual].map((nics) => findSwappableKind(nics, name, bindings));
  return after !== undefined && after === before ? to : undefined;
}

function withNetworkFieldsFrom(current: Iface, wanted: Iface | undefined): Iface {
  const isOwnField = ([key]: readonly [string, unknown]): boolean =>
    !NETWORK_FIELDS.some((field) => field === key);
  const requested = NETWORK_FIELDS.flatMap((field) =>
    wanted?.[field] === undefined ? [] : [[field, wanted[field]] as const],
  );
  const own = Object.entries(current).filter(isOwnField);
  return Object.fromEntries([...own, ...requested]) as Iface;
}

function withNetworkSwap(nics: Nics, network: Network, desired: Nics): Nics {
  const { name } = network;
  return {
    networks: nics.networks.map((each) => (each.name === name ? network : each)),
    ifaces: nics.ifaces.map((each) =>
      each.name === name ? withNetworkFieldsFrom(each, findByName(desired.ifaces, name)) : each,
    ),
  };
}

/** Applies all swaps if the rules allow them together. Otherwise applies each swap that they allow. */
function withNetworkSwaps(sides: Sides, isAcceptable: (nics: Nics) => boolean): Nics {
  const { desired, actual } = sides;
  const swaps = actual.ifaces.flatMap(({ name }) => findNetworkSwap(sides, name) ?? []);
  const swap = (nics: Nics, network: Network): Nics => withNetworkSwap(nics, network, desired);
  const all = swaps.reduce(swap, actual);
  if (swaps.length === 0 || isAcceptable(all)) return all;
  return swaps.reduce((nics, network) => {
    const next = swap(nics, network);
    return isAcceptable(next) ? next : nics;
  }, actual);
}

function isOnDefaultNetwork(nics: Nics, name: string): boolean {
  const network = findByName(nics.networks, name);
  return network !== undefined && isDefaultNetwork(network);
}

function withState(iface: Iface, state: string | undefined): Iface {
  const withoutState = Object.fromEntries(Object.entries(iface).filter(([key]) => key !== "state"));
  return { ...(withoutState as Iface), ...(state === undefined ? {} : { state }) };
}

/** Whether neither the pod nor the node reports the interface any more. */
function isUnplugComplete(vmi: VirtualMachineInstance, name: string): boolean {
  return (
    findByName(vmi.status?.attachments, name) === undefined &&
    findByName(vmi.status?.interfaces, name) === undefined
  );
}

function withLinkStateFrom(current: Iface, wanted: Iface | undefined): Iface {
  return wanted === undefined || isAbsent(wanted) ? current : withState(current, wanted.state);
}

function canBePlugged(
  iface: Iface,
  networks: readonly Network[],
  bindings: BindingRegistry,
): boolean {
  const binding = resolveBinding(iface, findByName(networks, iface.name), bindings);
  if (binding.kind === "refused" || binding.hasHook === true) return false;
  return BINDINGS[binding.kind].live.plug;
}

/** Applies the VM's state to the interface, unless the NIC is being unplugged and the VM declares a different one. */
function syncIface(current: Iface, { desired, actual, bindings }: Sides): Iface {
  const wanted = findByName(desired.ifaces, current.name);
  if (isOnDefaultNetwork(actual, current.name)) return withLinkStateFrom(current, wanted);
  if (wanted === undefined) return withState(current, "absent");
  const sameNetwork =
    findByName(desired.networks, current.name)?.multus?.networkName ===
    findByName(actual.networks, current.name)?.multus?.networkName;
  const isBlocked = !sameNetwork || !canBePlugged(wanted, desired.networks, bindings);
  if (isBlocked && isAbsent(current)) return current;
  return withState(current, wanted.state);
}

/** Whether the interface can be plugged into a running guest. Only a secondary network allows that. */
export function canPlug(iface: Iface, desired: Nics, bindings: BindingRegistry): boolean {
  return (
    !isAbsent(iface) &&
    canBePlugged(iface, desired.networks, bindings) &&
    findByName(desired.networks, iface.name)?.multus !== undefined &&
    !isOnDefaultNetwork(desired, iface.name)
  );
}

interface Plug {
  readonly network: Network;
  readonly iface: Iface;
}

export function withPlug(nics: Nics, { network, iface }: Plug): Nics {
  return { networks: [...nics.networks, network], ifaces: [...nics.ifaces, iface] };
}

function listPlugs({ desired, actual, bindings }: Sides): readonly Plug[] {
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

function withoutAbsent({ networks, ifaces }: Nics): Nics {
  const absent = new Set(ifaces.filter(isAbsent).map(({ name }) => name));
  return {
    networks: networks.filter(({ name }) => !absent.has(name)),
    ifaces: ifaces.filter(({ name }) => !absent.has(name)),
  };
}

function isAllowed(spec: VmiSpec, { networks, ifaces }: Nics): boolean {
  return validateVmiSpec(withNics(spec, networks, ifaces), "spec").length === 0;
}

function withoutIfaces(nics: Nics, isOmitted: (iface: Iface) => boolean): Nics {
  const omitted = new Set(nics.ifaces.filter(isOmitted).map(({ name }) => name));
  return {
    ifaces: nics.ifaces.filter(({ name }) => !omitted.has(name)),
    networks: nics.networks.filter(({ name }) => !omitted.has(name)),
  };
}

function withoutUnplugged(vmi: VirtualMachineInstance, nics: Nics): Nics {
  return withoutIfaces(nics, (iface) => isAbsent(iface) && isUnplugComplete(vmi, iface.name));
}

export interface NicsChange {
  readonly planned: Nics;
  readonly plugs: readonly Plug[];
}

/**
 * Plans the NICs of a VM's running VMI. New interfaces are appended in the VM's order. Deleted interfaces become `absent`
 * until their unplug is complete. A changed network is swapped. The default network never changes live, except for its link
 * state. A NIC that conflicts with another, for example with the MAC of one that is being unplugged, is plugged later.
 */
export function planNicsChange(
  template: VmiSpec,
  vmi: VirtualMachineInstance,
  bindings: BindingRegistry,
): NicsChange {
  const desired = nicsOf(template);
  const actual = nicsOf(vmi.spec);
  // If the VM's own spec breaks the rules, admission reports it.
  let isDesiredValid: boolean | undefined;
  const isAcceptable = (nics: Nics): boolean => {
    isDesiredValid ??= isAllowed(vmi.spec, withoutAbsent(desired));
    return !isDesiredValid || isAllowed(vmi.spec, nics);
  };
  const sides = { desired, actual, bindings };
  const synced = withoutUnplugged(vmi, {
    ifaces: actual.ifaces.map((iface) => syncIface(iface, sides)),
    networks: actual.networks,
  });
  const planned = withNetworkSwaps({ ...sides, actual: synced }, isAcceptable);
  const plugs: Plug[] = [];
  for (const plug of listPlugs(sides)) {
    if (isAcceptable(withPlug(plugs.reduce(withPlug, planned), plug))) plugs.push(plug);
  }
  return { planned, plugs };
}

/** Plans the NICs of a VMI without the changes of a VM: only removes completed unplugs. */
export function planOwnNics(vmi: VirtualMachineInstance): Nics {
  return withoutUnplugged(vmi, nicsOf(vmi.spec));
}

/** Plans the NICs of a VM's template: removes absent interfaces once their unplug from the VMI is complete. */
export function planTemplateNics(template: VmiSpec, vmi: VirtualMachineInstance | undefined): Nics {
  const nics = nicsOf(template);
  const isEnded = (iface: Iface): boolean =>
    isAbsent(iface) &&
    (vmi === undefined ||
      (findByName(ifacesOf(vmi.spec), iface.name) === undefined &&
        isUnplugComplete(vmi, iface.name)));
  return withoutIfaces(nics, isEnded);
}

interface NicsSource {
  readonly object: KubeObject;
  /** JSON pointer to the spec, for example `/spec`. */
  readonly base: string;
  readonly spec: VmiSpec;
}

/** Builds a patch that fails if either list has changed since it was read. */
export function nicsPatch(
  { object, base, spec }: NicsSource,
  wanted: Nics,
): readonly JsonPatchOperation[] {
  const { devices } = spec.domain;
  const networksPath = `${base}/networks`;
  const devicesPath = `${base}/domain/devices`;
  const lists = [
    { path: networksPath, value: spec.networks },
    { path: `${devicesPath}/interfaces`, value: devices?.interfaces },
  ];
  const tests = lists.flatMap(({ path, value }): readonly JsonPatchOperation[] =>
    value === undefined ? [] : [{ op: "test", path, value }],
  );
  return [
    ...(tests.length < lists.length ? [versionTest(object)] : []),
    ...tests,
    { op: "add", path: networksPath, value: wanted.networks },
    devices === undefined
      ? { op: "add", path: devicesPath, value: { interfaces: wanted.ifaces } }
      : { op: "add", path: `${devicesPath}/interfaces`, value: wanted.ifaces },
  ];
}
