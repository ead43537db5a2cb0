// SPDX-License-Identifier: Apache-2.0
// Which MAC an iface has: chosen once, kept, and the only one of its kind on its network.
import {
  isAbsent,
  isSecondary,
  MAC_BYTES,
  normalizeMac,
  type Iface,
  type VmiSpec,
} from "@patchbay/api";
import { findByName, ifacesOf, networkNameOf, networksOf } from "../spec/nics.ts";
import type { IfaceFacts, LinkFacts } from "./facts.ts";

/** What tells which MAC the guest's NIC has. */
export type MacFacts = Pick<IfaceFacts, "iface" | "attachment"> & {
  readonly links?: Pick<LinkFacts, "mac">;
};

/**
 * The guest's MAC: what the spec says, else what the pod NIC has, else, where nobody can see it, what the pod's status
 * says of it; lower case with colons.
 */
export function macOf({ iface, attachment, links }: MacFacts): string {
  const mac = iface?.macAddress ?? links?.mac ?? attachment?.mac ?? "";
  return normalizeMac(mac);
}

/** Gives `size` random bytes; from the caller, since pure code has no randomness. */
export type RandomBytes = (size: number) => Uint8Array;

/** Two equal draws of 46 random bits are an accident; this many are a broken source. */
const DRAWS_MAX = 16;

function drawMac(randomBytes: RandomBytes): string {
  const bytes = [...randomBytes(MAC_BYTES)];
  // Locally administered, unicast. Source: IEEE 802, U/L and I/G bits.
  const first = ((bytes[0] ?? 0) & 0xfc) | 0x02;
  return [first, ...bytes.slice(1)].map((byte) => byte.toString(16).padStart(2, "0")).join(":");
}

/** A locally administered unicast MAC that is not in `taken` (lower case, with colons). */
export function macFor(taken: ReadonlySet<string>, randomBytes: RandomBytes): string {
  for (let draw = 1; draw < DRAWS_MAX; draw += 1) {
    const mac = drawMac(randomBytes);
    if (!taken.has(mac)) return mac;
  }
  return drawMac(randomBytes);
}

/** Where a missing MAC may come from. */
export interface MacSources {
  /** Namespace of the VM, in which unqualified network names are. */
  readonly namespace: string;
  /** Earlier specifications of the same VM, the best one first: the same iface on the same network keeps its MAC. */
  readonly earlier: readonly VmiSpec[];
  readonly randomBytes: RandomBytes;
}

function networkOf(spec: VmiSpec, name: string, namespace: string): string | undefined {
  const network = findByName(networksOf(spec), name);
  return network === undefined ? undefined : networkNameOf(network, namespace);
}

/** Whether another iface of the specification names that MAC on the network: whoever wrote it there wants it there. */
function isNamed(
  spec: VmiSpec,
  at: { name: string; network: string | undefined; mac: string },
  namespace: string,
): boolean {
  return ifacesOf(spec).some(
    (other) =>
      other.name !== at.name &&
      !isAbsent(other) &&
      normalizeMac(other.macAddress ?? "") === normalizeMac(at.mac) &&
      networkOf(spec, other.name, namespace) === at.network,
  );
}

function earlierMac(
  spec: VmiSpec,
  name: string,
  { namespace, earlier }: MacSources,
): string | undefined {
  const network = networkOf(spec, name, namespace);
  return earlier
    .filter((other) => networkOf(other, name, namespace) === network)
    .map((other) => findByName(ifacesOf(other), name)?.macAddress ?? "")
    .find((mac) => mac !== "" && !isNamed(spec, { name, network, mac }, namespace));
}

/** The ifaces of a specification, each one on a secondary network with a MAC; what has one is not changed. */
export function withMacs(spec: VmiSpec, sources: MacSources): readonly Iface[] {
  const taken = new Set(ifacesOf(spec).map((iface) => normalizeMac(iface.macAddress ?? "")));
  return ifacesOf(spec).map((iface) => {
    const has = (iface.macAddress ?? "") !== "";
    if (has || isAbsent(iface) || !isSecondary(iface, networksOf(spec))) return iface;
    const macAddress = earlierMac(spec, iface.name, sources) ?? macFor(taken, sources.randomBytes);
    taken.add(normalizeMac(macAddress));
    return { ...iface, macAddress };
  });
}

/** A VM or a VMI, as far as its MACs matter. */
export interface MacOwner {
  readonly namespace: string;
  readonly name: string;
  readonly spec: VmiSpec;
  /** It has no guest, and starts none by itself. */
  readonly isHalted?: boolean;
}

/** The MACs that a specification names, lower case with colons. */
export function listMacs(spec: VmiSpec): readonly string[] {
  return ifacesOf(spec).flatMap(({ macAddress = "" }) =>
    macAddress === "" ? [] : [normalizeMac(macAddress)],
  );
}

/** Two NICs with one MAC on one network, or on two networks of one bridge. */
export interface MacTwin {
  /** Index of the iface in the judged specification. */
  readonly index: number;
  readonly mac: string;
  /** NAMESPACE/NAME of the judged iface's network. */
  readonly network: string;
  /** The other VM as NAMESPACE/NAME. */
  readonly owner: string;
  readonly isOwnerHalted: boolean;
  /** Whether the other NIC is on another network of the same bridge. */
  readonly isOtherNetwork: boolean;
}

/** What two networks (NAMESPACE/NAME) have in common that share a bridge. */
export type SegmentOf = (network: string) => string;

function placesOf(owner: MacOwner): readonly { mac: string; network: string; index: number }[] {
  return ifacesOf(owner.spec).flatMap((iface, index) => {
    const network = networkOf(owner.spec, iface.name, owner.namespace);
    const mac = iface.macAddress ?? "";
    if (network === undefined || mac === "" || isAbsent(iface)) return [];
    return [{ mac: normalizeMac(mac), network, index }];
  });
}

/**
 * The ifaces of `own` whose MAC another VM has on the same segment, in the order of the specification. Of several VMs
 * one that runs is named.
 */
export function findMacTwins(
  own: MacOwner,
  others: readonly MacOwner[],
  segmentOf: SegmentOf = (network) => network,
): readonly MacTwin[] {
  const inUse = new Map<string, { readonly owner: MacOwner; readonly network: string }>();
  const haltedFirst = [
    ...others.filter(({ isHalted }) => isHalted === true),
    ...others.filter(({ isHalted }) => isHalted !== true),
  ];
  for (const owner of haltedFirst) {
    if (owner.namespace === own.namespace && owner.name === own.name) continue;
    for (const { mac, network } of placesOf(owner)) {
      inUse.set(`${segmentOf(network)} ${mac}`, { owner, network });
    }
  }
  return placesOf(own).flatMap(({ mac, network, index }) => {
    const found = inUse.get(`${segmentOf(network)} ${mac}`);
    if (found === undefined) return [];
    const { namespace, name, isHalted } = found.owner;
    const owner = `${namespace}/${name}`;
    const isOtherNetwork = found.network !== network;
    return [{ index, mac, network, owner, isOwnerHalted: isHalted === true, isOtherNetwork }];
  });
}

/** Two NICs of one VM with one MAC on two networks of one bridge. */
export interface OwnMacTwin {
  /** Index of the later iface. */
  readonly index: number;
  /** Index of the earlier one. */
  readonly earlier: number;
  readonly mac: string;
  /** NAMESPACE/NAME of each one's network. */
  readonly networks: readonly [later: string, earlier: string];
}

/** NICs of one VM whose MACs collide on a bridge; two on the same network are refused by validation. */
export function findOwnMacTwins(own: MacOwner, segmentOf: SegmentOf): readonly OwnMacTwin[] {
  const places = placesOf(own);
  return places.flatMap((place, at) => {
    const other = places
      .slice(0, at)
      .find(
        ({ mac, network }) =>
          mac === place.mac &&
          network !== place.network &&
          segmentOf(network) === segmentOf(place.network),
      );
    if (other === undefined) return [];
    const networks = [place.network, other.network] as const;
    return [{ index: place.index, earlier: other.index, mac: place.mac, networks }];
  });
}

/** How a VM is named to a user of a namespace, who may not be allowed to read VMs of other namespaces. */
export function nameMacOwner(owner: string, namespace: string): string {
  return owner.startsWith(`${namespace}/`) ? `VM ${owner}` : "a VM of another namespace";
}
