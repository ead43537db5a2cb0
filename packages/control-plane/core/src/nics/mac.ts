// SPDX-License-Identifier: Apache-2.0
// MAC addresses of interfaces: assigned once, retained, and unique on their network.
import {
  isAbsent,
  type Iface,
  type VmiSpec,
  isDefaultNetwork,
  type BindingRegistry,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VmStatus,
} from "@patchbay/api";
import { isSecondary } from "@patchbay/api/validate";
import { MAC_BYTES, normalizeMac, isNicMac } from "@patchbay/api/values";
import { findByName, ifacesOf, networkNameOf, networksOf } from "./nics.ts";
import type { IfaceFacts, LinkFacts } from "./facts.ts";
import { resolveBinding } from "./bindings/resolve-binding.ts";
import { BINDINGS } from "./bindings/binding.ts";

export type MacFacts = Pick<IfaceFacts, "iface" | "attachment"> & {
  readonly links?: Pick<LinkFacts, "mac">;
};

/** Returns the guest's MAC from the spec, or else from the pod NIC, or else from the attachment. Lower case with colons. */
export function findMac({ iface, attachment, links }: MacFacts): string {
  const mac = iface?.macAddress ?? links?.mac ?? attachment?.mac ?? "";
  return normalizeMac(mac);
}

/** Returns `size` random bytes. The caller supplies it because pure code has no randomness. */
export type RandomBytes = (size: number) => Uint8Array;

/** Attempts to draw an unused MAC. So many collisions of 46 random bits show a broken random source. */
const DRAWS_MAX = 16;

function drawMac(randomBytes: RandomBytes): string {
  const bytes = [...randomBytes(MAC_BYTES)];
  // Locally administered, unicast. Source: IEEE 802, U/L and I/G bits.
  const first = ((bytes[0] ?? 0) & 0xfc) | 0x02;
  return [first, ...bytes.slice(1)].map((byte) => byte.toString(16).padStart(2, "0")).join(":");
}

/** Returns a locally administered unicast MAC that is not in `inUse` (lower case with colons), unless all attempts collide. */
export function chooseMac(inUse: ReadonlySet<string>, randomBytes: RandomBytes): string {
  for (let draw = 1; draw < DRAWS_MAX; draw += 1) {
    const mac = drawMac(randomBytes);
    if (!inUse.has(mac)) return mac;
  }
  return drawMac(randomBytes);
}

interface MacSources {
  readonly namespace: string;
  /** Earlier specs of the same VM, the preferred one first. An interface retains its MAC while it stays on its network. */
  readonly earlier: readonly VmiSpec[];
  readonly randomBytes: RandomBytes;
}

function findNetworkName(spec: VmiSpec, name: string, namespace: string): string | undefined {
  const network = findByName(networksOf(spec), name);
  return network === undefined ? undefined : networkNameOf(network, namespace);
}

/** Whether another interface of the spec has this MAC on the network. An explicit MAC takes precedence. */
function isMacOfOtherIface(
  spec: VmiSpec,
  target: { name: string; network: string | undefined; mac: string },
  namespace: string,
): boolean {
  return ifacesOf(spec).some(
    (other) =>
      other.name !== target.name &&
      !isAbsent(other) &&
      normalizeMac(other.macAddress ?? "") === normalizeMac(target.mac) &&
      findNetworkName(spec, other.name, namespace) === target.network,
  );
}

function findEarlierMac(
  spec: VmiSpec,
  name: string,
  { namespace, earlier }: MacSources,
): string | undefined {
  const network = findNetworkName(spec, name, namespace);
  return earlier
    .filter((other) => findNetworkName(other, name, namespace) === network)
    .map((other) => findByName(ifacesOf(other), name)?.macAddress ?? "")
    .find((mac) => mac !== "" && !isMacOfOtherIface(spec, { name, network, mac }, namespace));
}

export function withMacs(spec: VmiSpec, sources: MacSources): readonly Iface[] {
  const inUse = new Set(ifacesOf(spec).map((iface) => normalizeMac(iface.macAddress ?? "")));
  return ifacesOf(spec).map((iface) => {
    const hasMac = (iface.macAddress ?? "") !== "";
    if (hasMac || isAbsent(iface) || !isSecondary(iface, networksOf(spec))) return iface;
    const macAddress =
      findEarlierMac(spec, iface.name, sources) ?? chooseMac(inUse, sources.randomBytes);
    inUse.add(normalizeMac(macAddress));
    return { ...iface, macAddress };
  });
}

export interface MacOwner {
  readonly namespace: string;
  readonly name: string;
  readonly spec: VmiSpec;
  /** Whether the VM has no guest and will not start one by itself. */
  readonly isHalted?: boolean;
}

export function listMacs(spec: VmiSpec): readonly string[] {
  return ifacesOf(spec).flatMap(({ macAddress = "" }) =>
    macAddress === "" ? [] : [normalizeMac(macAddress)],
  );
}

export interface MacTwin {
  readonly index: number;
  readonly mac: string;
  /** NAMESPACE/NAME of the interface's network. */
  readonly network: string;
  /** NAMESPACE/NAME of the other VM. */
  readonly owner: string;
  readonly isOwnerHalted: boolean;
  readonly isOtherNetwork: boolean;
}

/** Returns the layer-2 segment of a network (NAMESPACE/NAME). Networks that share a bridge have the same one. */
export type SegmentOf = (network: string) => string;

function listMacLocations(
  owner: MacOwner,
): readonly { mac: string; network: string; index: number }[] {
  return ifacesOf(owner.spec).flatMap((iface, index) => {
    const network = findNetworkName(owner.spec, iface.name, owner.namespace);
    const mac = iface.macAddress ?? "";
    if (network === undefined || mac === "" || isAbsent(iface)) return [];
    return [{ mac: normalizeMac(mac), network, index }];
  });
}

/**
 * Returns the interfaces of `own` whose MAC another VM has on the same segment, in the order of the spec. If several VMs have
 * it, `owner` is a running one.
 */
export function findMacTwins(
  own: MacOwner,
  others: readonly MacOwner[],
  findSegment: SegmentOf = (network) => network,
): readonly MacTwin[] {
  const inUse = new Map<string, { readonly owner: MacOwner; readonly network: string }>();
  const haltedFirst = [
    ...others.filter(({ isHalted }) => isHalted === true),
    ...others.filter(({ isHalted }) => isHalted !== true),
  ];
  for (const owner of haltedFirst) {
    if (owner.namespace === own.namespace && owner.name === own.name) continue;
    for (const { mac, network } of listMacLocations(owner)) {
      inUse.set(`${findSegment(network)} ${mac}`, { owner, network });
    }
  }
  return listMacLocations(own).flatMap(({ mac, network, index }) => {
    const found = inUse.get(`${findSegment(network)} ${mac}`);
    if (found === undefined) return [];
    const { namespace, name, isHalted } = found.owner;
    const owner = `${namespace}/${name}`;
    const isOtherNetwork = found.network !== network;
    return [{ index, mac, network, owner, isOwnerHalted: isHalted === true, isOtherNetwork }];
  });
}

interface OwnMacTwin {
  readonly index: number;
  readonly earlier: number;
  readonly mac: string;
  /** NAMESPACE/NAME of both networks. */
  readonly networks: readonly [later: string, earlier: string];
}

/** Finds NICs of one VM whose MACs collide on a segment of different networks. Validation rejects duplicates on one network. */
export function findOwnMacTwins(own: MacOwner, findSegment: SegmentOf): readonly OwnMacTwin[] {
  const locations = listMacLocations(own);
  return locations.flatMap((location, at) => {
    const other = locations
      .slice(0, at)
      .find(
        ({ mac, network }) =>
          mac === location.mac &&
          network !== location.network &&
          findSegment(network) === findSegment(location.network),
      );
    if (other === undefined) return [];
    const networks = [location.network, other.network] as const;
    return [{ index: location.index, earlier: other.index, mac: location.mac, networks }];
  });
}

/** Describes a VM without its name if it is in another namespace, which the user may not be allowed to read. */
export function nameMacOwner(owner: string, namespace: string): string {
  return owner.startsWith(`${namespace}/`) ? `VM ${owner}` : "a VM of another namespace";
}

type RetainedMacs = NonNullable<VmStatus["macAddresses"]>;

/** Whether the interface is on the pod network and its binding allows a chosen MAC. */
function canRetainMac(iface: Iface, spec: VmiSpec, bindings: BindingRegistry): boolean {
  const network = findByName(networksOf(spec), iface.name);
  if (network === undefined || !isDefaultNetwork(network) || isAbsent(iface)) return false;
  const { kind } = resolveBinding(iface, network, bindings);
  return kind !== "refused" && BINDINGS[kind].allowsOtherMac;
}

/** Returns the MACs to record in the VM's status: the running guest's, or else those already recorded. Drops interfaces that the VM no longer declares. */
export function collectRetainedMacs(
  vm: VirtualMachine,
  vmi: VirtualMachineInstance | undefined,
  bindings: BindingRegistry,
): RetainedMacs {
  const { spec } = vm.spec.template;
  return ifacesOf(spec)
    .filter((iface) => canRetainMac(iface, spec, bindings))
    .flatMap(({ name }) => {
      const reported = findByName(vmi?.status?.interfaces, name)?.mac ?? "";
      const known = findByName(vm.status?.macAddresses, name)?.macAddress;
      // The launcher is not trusted. An invalid MAC would make the VMI invalid.
      const mac = isNicMac(reported) ? normalizeMac(reported) : known;
      return mac === undefined ? [] : [{ name, macAddress: mac }];
    });
}

/** Sets the retained MAC on each interface of the VM's template that has none. */
export function withRetainedMacs(
  vm: VirtualMachine,
  ifaces: readonly Iface[],
  bindings: BindingRegistry,
): readonly Iface[] {
  const retained = collectRetainedMacs(vm, undefined, bindings);
  return ifaces.map((iface) => {
    const macAddress = findByName(retained, iface.name)?.macAddress;
    const isNamed = (iface.macAddress ?? "") !== "";
    return isNamed || macAddress === undefined ? iface : { ...iface, macAddress };
  });
}
