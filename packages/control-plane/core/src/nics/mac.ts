// SPDX-License-Identifier: Apache-2.0
// Assigns MAC addresses to interfaces, retains them over restarts, and finds conflicts on a network.
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

/** Returns the guest's MAC from the spec, or else from the pod NIC, or else from the attachment. The MAC is in lower case with colons. */
export function findMac({ iface, attachment, links }: MacFacts): string {
  const mac = iface?.macAddress ?? links?.mac ?? attachment?.mac ?? "";
  return normalizeMac(mac);
}

/** Returns `size` random bytes. Callers supply the function, so that tests are deterministic. */
export type RandomBytes = (size: number) => Uint8Array;

/** Maximum number of attempts to draw an unused MAC. More collisions of 46 random bits are practically impossible. */
const DRAWS_MAX = 16;

function drawMac(randomBytes: RandomBytes): string {
  const bytes = [...randomBytes(MAC_BYTES)];
  // Makes the MAC locally administered and unicast. Source: IEEE 802, U/L and I/G bits.
  const first = ((bytes[0] ?? 0) & 0xfc) | 0x02;
  return [first, ...bytes.slice(1)].map((byte) => byte.toString(16).padStart(2, "0")).join(":");
}

/** Returns a random MAC that is not in `inUse` (lower case with colons). Returns a used MAC only if all attempts collide. */
export function chooseMac(inUse: ReadonlySet<string>, randomBytes: RandomBytes): string {
  for (let draw = 1; draw < DRAWS_MAX; draw += 1) {
    const mac = drawMac(randomBytes);
    if (!inUse.has(mac)) return mac;
  }
  return drawMac(randomBytes);
}

interface MacSources {
  readonly namespace: string;
  /** Earlier specs of the same VM, in order of preference. An interface retains its MAC while its network is unchanged. */
  readonly earlier: readonly VmiSpec[];
  readonly randomBytes: RandomBytes;
}

function findNetworkName(spec: VmiSpec, name: string, namespace: string): string | undefined {
  const network = findByName(networksOf(spec), name);
  return network === undefined ? undefined : networkNameOf(network, namespace);
}

/** Checks whether another interface of the spec has this MAC on the same network. */
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
  /** Whether the VM is stopped and does not start automatically. */
  readonly isHalted?: boolean;
}

export function listMacs(spec: VmiSpec): readonly string[] {
  return ifacesOf(spec).flatMap(({ macAddress = "" }) =>
    macAddress === "" ? [] : [normalizeMac(macAddress)],
  );
}

export interface MacConflict {
  readonly index: number;
  readonly mac: string;
  /** NAMESPACE/NAME of the interface's network. */
  readonly network: string;
  /** NAMESPACE/NAME of the other VM. */
  readonly owner: string;
  readonly isOwnerHalted: boolean;
  readonly isOtherNetwork: boolean;
}

/** Returns the layer-2 segment of the network NAMESPACE/NAME. Networks on the same bridge share a segment. */
export type FindSegment = (network: string) => string;

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

/** Returns the interfaces of `own` whose MAC another VM has on the same segment. Prefers a VM that is not halted as `owner`. */
export function findMacConflicts(
  own: MacOwner,
  others: readonly MacOwner[],
  findSegment: FindSegment = (network) => network,
): readonly MacConflict[] {
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

interface OwnMacConflict {
  readonly index: number;
  readonly earlier: number;
  readonly mac: string;
  /** NAMESPACE/NAME of both networks. */
  readonly networks: readonly [later: string, earlier: string];
}

/** Finds NICs of one VM with the same MAC on different networks of one segment. Validation rejects duplicates on one network. */
export function findOwnMacConflicts(
  own: MacOwner,
  findSegment: FindSegment,
): readonly OwnMacConflict[] {
  const locations = listMacLocations(own);
  return locations.flatMap((location, position) => {
    const other = locations
      .slice(0, position)
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

/** Describes a VM for a message. Omits the name of a VM in another namespace, which the user may not be allowed to read. */
export function describeMacOwner(owner: string, namespace: string): string {
  return owner.startsWith(`${namespace}/`) ? `VM ${owner}` : "a VM of another namespace";
}

type RetainedMacs = NonNullable<VmStatus["macAddresses"]>;

/** Checks whether the interface is on the pod network and its binding allows a configured MAC. */
function canRetainMac(iface: Iface, spec: VmiSpec, bindings: BindingRegistry): boolean {
  const network = findByName(networksOf(spec), iface.name);
  if (network === undefined || !isDefaultNetwork(network) || isAbsent(iface)) return false;
  const { kind } = resolveBinding(iface, network, bindings);
  return kind !== "refused" && BINDINGS[kind].allowsOtherMac;
}

/** Returns the MACs to record in the VM's status: the running guest's MACs, or else the recorded MACs. */
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
      // The launcher's report is not trusted, and an invalid MAC would make the VMI invalid.
      const mac = isNicMac(reported) ? normalizeMac(reported) : known;
      return mac === undefined ? [] : [{ name, macAddress: mac }];
    });
}

/** Sets the retained MAC on each interface without a configured MAC. */
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
