// SPDX-License-Identifier: Apache-2.0
// Plans the networks and interfaces of a VMI from its VM, and builds the patch.
import {
  isAbsent,
  isDefaultNetwork,
  type BindingRegistry,
  type Iface,
  type IfaceStatus,
  type Network,
  type VirtualMachineInstance,
  type VmiSpec,
} from "@patchbay/api";
import type { JsonPatchOperation } from "@patchbay/api/json";
import type { KubeObject } from "@patchbay/api/kubernetes";
import { validateVmiSpec } from "@patchbay/api/validate";
import { isEqual } from "@patchbay/base";
import { resolveBinding } from "./bindings/resolve-binding.ts";
import { BINDINGS, type BindingKind } from "./bindings/binding.ts";
import { listHeldClaims } from "./claimed-nics.ts";
import { findByName, ifacesOf, nicsOf, withNics, type Nics } from "./nics.ts";
import { versionTest } from "../status/patch.ts";

export interface NicsSyncInput {
  readonly desired: Nics;
  readonly actual: Nics;
  readonly bindings: BindingRegistry;
  /** Interfaces in the running VMI's status. Unset if no guest runs. */
  readonly reported?: readonly IfaceStatus[] | undefined;
  /** Names of the resource claims that the launcher holds. Unset if no guest runs. */
  readonly heldClaims?: ReadonlySet<string>;
}

/** Interface fields that a network swap replaces together with the network. */
export const NETWORK_FIELDS = ["ips", "ipamClaimName", "cniArgs"] as const;

function isSecondaryNetwork(network: Network | undefined): network is Network {
  return network?.multus !== undefined && !isDefaultNetwork(network);
}

/** Returns the binding kind if it supports network swaps and the interface is not absent; otherwise undefined. */
function findSwappableKind(
  { networks, ifaces }: Nics,
  name: string,
  bindings: BindingRegistry,
): BindingKind | undefined {
  const iface = findByName(ifaces, name);
  if (iface === undefined || isAbsent(iface)) return undefined;
  const { kind } = resolveBinding(iface, findByName(networks, name), bindings);
  return kind !== "refused" && BINDINGS[kind].live.canSwapNetwork ? kind : undefined;
}

/** Returns the new network of an interface; undefined if the network is unchanged or cannot be swapped while the guest runs. */
export function findNetworkSwap(
  { desired, actual, bindings }: NicsSyncInput,
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
  const ownFields = Object.entries(current).filter(isOwnField);
  return Object.fromEntries([...ownFields, ...requested]) as Iface;
}

function replaceNetworks(nics: Nics, networks: readonly Network[], desired: Nics): Nics {
  const newNetworks = new Map(networks.map((network) => [network.name, network]));
  return {
    networks: nics.networks.map((each) => newNetworks.get(each.name) ?? each),
    ifaces: nics.ifaces.map((each) =>
      newNetworks.has(each.name)
        ? withNetworkFieldsFrom(each, findByName(desired.ifaces, each.name))
        : each,
    ),
  };
}

/** Applies all network swaps if the result is valid. Otherwise applies them one by one and skips swaps that make the spec invalid. */
function withNetworkSwaps(input: NicsSyncInput, isAcceptable: (nics: Nics) => boolean): Nics {
  const { desired, actual } = input;
  const swaps = actual.ifaces.flatMap(({ name }) => findNetworkSwap(input, name) ?? []);
  const swappedNics = replaceNetworks(actual, swaps, desired);
  if (swaps.length === 0 || isAcceptable(swappedNics)) return swappedNics;
  return swaps.reduce((nics, network) => {
    const candidate = replaceNetworks(nics, [network], desired);
    return isAcceptable(candidate) ? candidate : nics;
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

/** Checks whether virt-controller and virt-handler have both removed the interface from the status. */
function isUnplugComplete(vmi: VirtualMachineInstance, name: string): boolean {
  return (
    findByName(vmi.status?.attachments, name) === undefined &&
    findByName(vmi.status?.interfaces, name) === undefined
  );
}

/**
 * Checks whether a running guest can follow the interface's MTU. The guest's driver cannot exceed the MTU with which the device
 * was created. Source: linux/drivers/net/virtio_net.c, max_mtu
 */
export function canFollowMtu(
  { name, mtu }: Iface,
  reported: readonly IfaceStatus[] | undefined,
): boolean {
  const { mtu: deviceMtu = 0 } = findByName(reported, name) ?? {};
  return mtu !== undefined && mtu <= deviceMtu;
}

function withBandwidth(iface: Iface, bandwidth: Iface["bandwidth"]): Iface {
  const rest = Object.fromEntries(Object.entries(iface).filter(([key]) => key !== "bandwidth"));
  return { ...(rest as Iface), ...(bandwidth === undefined ? {} : { bandwidth }) };
}

/** Copies from `wanted` the fields that can change while the guest runs: link state, bandwidth, and an MTU that the guest can follow. */
function withLiveFields(
  current: Iface,
  wanted: Iface,
  { reported }: Pick<NicsSyncInput, "reported">,
): Iface {
  const iface = withBandwidth(withState(current, wanted.state), wanted.bandwidth);
  return wanted.mtu !== undefined && canFollowMtu(wanted, reported)
    ? { ...iface, mtu: wanted.mtu }
    : iface;
}

function supportsPlug(
  iface: Iface,
  networks: readonly Network[],
  bindings: BindingRegistry,
): boolean {
  const binding = resolveBinding(iface, findByName(networks, iface.name), bindings);
  if (binding.kind === "refused" || binding.hasHook === true) return false;
  return BINDINGS[binding.kind].live.canPlug;
}

function isOnSameNetwork({ desired, actual }: NicsSyncInput, name: string): boolean {
  const [to, from] = [desired, actual].map((nics) => findByName(nics.networks, name));
  return (
    to?.multus?.networkName === from?.multus?.networkName &&
    isEqual(to?.resourceClaim, from?.resourceClaim)
  );
}

/**
 * Returns the VMI's interface with the VM's live fields. An interface that the VM lacks becomes `absent`, except on the default network. If
 * the VM has a new one of the same name that cannot be plugged or uses another network, `absent` remains until the unplug is done.
 */
function syncIface(current: Iface, input: NicsSyncInput): Iface {
  const { desired, actual, bindings } = input;
  const wanted = findByName(desired.ifaces, current.name);
  if (isOnDefaultNetwork(actual, current.name))
    return wanted === undefined || isAbsent(wanted)
      ? current
      : withLiveFields(current, wanted, input);
  if (wanted === undefined) return withState(current, "absent");
  const sameNetwork = isOnSameNetwork(input, current.name);
  const isBlocked = !sameNetwork || !supportsPlug(wanted, desired.networks, bindings);
  if (isBlocked && isAbsent(current)) return current;
  return sameNetwork && !isAbsent(wanted)
    ? withLiveFields(current, wanted, input)
    : withState(current, wanted.state);
}

/** Checks whether the network's device belongs to a resource claim that the running launcher pod does not have. */
function lacksClaim(
  network: Network | undefined,
  { heldClaims }: Pick<NicsSyncInput, "heldClaims">,
): boolean {
  const { resourceClaim } = network ?? {};
  return resourceClaim !== undefined && heldClaims?.has(resourceClaim.claimName ?? "") !== true;
}

/** Checks whether the interface can be plugged into a running guest. Only interfaces on secondary networks can be plugged. */
export function canPlug(iface: Iface, input: NicsSyncInput): boolean {
  const { desired, bindings } = input;
  const network = findByName(desired.networks, iface.name);
  return (
    !isAbsent(iface) &&
    supportsPlug(iface, desired.networks, bindings) &&
    (network?.multus !== undefined || network?.resourceClaim !== undefined) &&
    !isOnDefaultNetwork(desired, iface.name) &&
    !lacksClaim(network, input)
  );
}

interface Plug {
  readonly network: Network;
  readonly iface: Iface;
}

export function withPlug(nics: Nics, { network, iface }: Plug): Nics {
  return { networks: [...nics.networks, network], ifaces: [...nics.ifaces, iface] };
}

function listPlugs(input: NicsSyncInput): readonly Plug[] {
  const { desired, actual } = input;
  return desired.ifaces
    .filter((iface) => canPlug(iface, input) && findByName(actual.ifaces, iface.name) === undefined)
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

function withoutUnheld(nics: Nics, held: Pick<NicsSyncInput, "heldClaims">): Nics {
  return withoutIfaces(nics, ({ name }) => lacksClaim(findByName(nics.networks, name), held));
}

function withoutUnplugged(vmi: VirtualMachineInstance, nics: Nics): Nics {
  return withoutIfaces(nics, (iface) => isAbsent(iface) && isUnplugComplete(vmi, iface.name));
}

export interface NicsChange {
  readonly planned: Nics;
  readonly plugs: readonly Plug[];
}

/**
 * Plans the NICs of a running VMI from its VM's template: appends new interfaces, marks deleted ones as `absent` until they are
 * unplugged, and swaps changed networks. On the default network, only fields of {@link withLiveFields} change. A new NIC is not
 * plugged while it conflicts with another NIC, for example by its MAC.
 */
export function planNicsChange(
  template: VmiSpec,
  vmi: VirtualMachineInstance,
  bindings: BindingRegistry,
): NicsChange {
  const desired = nicsOf(template);
  const actual = nicsOf(vmi.spec);
  const heldClaims = listHeldClaims(template, vmi.spec);
  // If the template's own NICs are invalid, every change is acceptable, because admission already reports the template.
  let isDesiredValid: boolean | undefined;
  const isAcceptable = (nics: Nics): boolean => {
    isDesiredValid ??= isAllowed(vmi.spec, withoutUnheld(withoutAbsent(desired), { heldClaims }));
    return !isDesiredValid || isAllowed(vmi.spec, nics);
  };
  const input = { desired, actual, bindings, reported: vmi.status?.interfaces, heldClaims };
  const synced = withoutUnplugged(vmi, {
    ifaces: actual.ifaces.map((iface) => syncIface(iface, input)),
    networks: actual.networks,
  });
  const planned = withNetworkSwaps({ ...input, actual: synced }, isAcceptable);
  return { planned, plugs: chooseAcceptable(planned, listPlugs(input), isAcceptable) };
}

/** Returns all plugs if they are acceptable together. Otherwise adds them one by one, which needs a validation for each plug. */
function chooseAcceptable(
  planned: Nics,
  plugs: readonly Plug[],
  isAcceptable: (nics: Nics) => boolean,
): readonly Plug[] {
  const withAll = {
    networks: [...planned.networks, ...plugs.map(({ network }) => network)],
    ifaces: [...planned.ifaces, ...plugs.map(({ iface }) => iface)],
  };
  if (plugs.length === 0 || isAcceptable(withAll)) return plugs;
  let nics = planned;
  return plugs.filter((plug) => {
    const candidate = withPlug(nics, plug);
    if (!isAcceptable(candidate)) return false;
    nics = candidate;
    return true;
  });
}

/** Returns the VMI's NICs, except absent interfaces whose unplug is complete. */
export function planOwnNics(vmi: VirtualMachineInstance): Nics {
  return withoutUnplugged(vmi, nicsOf(vmi.spec));
}

/** Returns the NICs of a VM's template, without interfaces of state `absent` whose unplug from the VMI is complete. */
export function planTemplateNics(template: VmiSpec, vmi: VirtualMachineInstance | undefined): Nics {
  const nics = nicsOf(template);
  const isUnplugged = (iface: Iface): boolean =>
    isAbsent(iface) &&
    (vmi === undefined ||
      (findByName(ifacesOf(vmi.spec), iface.name) === undefined &&
        isUnplugComplete(vmi, iface.name)));
  return withoutIfaces(nics, isUnplugged);
}

interface NicsSource {
  readonly object: KubeObject;
  /** JSON pointer to the spec, for example `/spec`. */
  readonly base: string;
  readonly spec: VmiSpec;
}

/** Builds a patch that fails if the networks or the interfaces have changed since they were read. */
export function toNicsPatch(
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
