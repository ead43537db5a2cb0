// SPDX-License-Identifier: Apache-2.0
// Can NICs be made of a network's definition on this node? What is found is told before anybody asks for one.
import {
  IP_BITS,
  isJsonObject,
  isWithin,
  networkOf,
  parseIp,
  type IpPrefix,
  type JsonObject,
} from "@patchbay/api";
import { AppError } from "../errors/app-error.ts";
import type { Named, AddressPool, DefinitionNeeds } from "./needs.ts";

/** One range, from its first to its last address. */
interface Range {
  readonly version: 4 | 6;
  readonly first: bigint;
  readonly last: bigint;
  /** Never given to a pod. */
  readonly gateway: bigint;
}

/** Ranges of which a pod gets one address; undefined: they are written so that only the plugin can say. */
type RangeSet = readonly Range[] | undefined;

/** What can be said of a set of ranges. */
interface RangeUse {
  /** As a person finds it: `ipam.ranges[0]`, or `ipam` where it is written in the old form. */
  readonly field: string;
  readonly size: bigint;
  readonly used: number;
}

function textOf(object: JsonObject, name: string): string | undefined {
  const value = object[name];
  return typeof value === "string" && value !== "" ? value : undefined;
}

/** An address of the subnet; `fallback` where none is written, undefined where what is written is none of it. */
function within(text: string | undefined, subnet: IpPrefix, fallback: bigint): bigint | undefined {
  if (text === undefined) return fallback;
  const address = parseIp(text);
  return address !== undefined && isWithin({ ...address, length: IP_BITS[address.version] }, subnet)
    ? address.value
    : undefined;
}

/** Defaults are the plugin's. Source: plugins host-local backend/allocator range.go Canonicalize. */
function rangeOf(value: unknown): Range | undefined {
  const subnet = isJsonObject(value) ? parseIp(textOf(value, "subnet") ?? "") : undefined;
  if (!isJsonObject(value) || subnet === undefined) return undefined;
  const { version, length } = subnet;
  const bits = BigInt(IP_BITS[version] - length);
  const base = networkOf(subnet).value;
  const end = base + (1n << bits) - 1n;
  const lastUsable = version === 4 ? end - 1n : end;
  const first = within(textOf(value, "rangeStart"), subnet, base + 1n);
  const last = within(textOf(value, "rangeEnd"), subnet, lastUsable);
  const gateway = within(textOf(value, "gateway"), subnet, base + 1n);
  if (bits < 2n || first === undefined || last === undefined) return undefined;
  return { version, first, last, gateway: gateway ?? -1n };
}

function setOf(value: unknown): RangeSet {
  if (!Array.isArray(value) || value.length === 0) return undefined;
  const ranges = value.map(rangeOf);
  return ranges.every((range) => range !== undefined) ? ranges : undefined;
}

function namedSets(ipam: JsonObject): readonly (readonly [string, RangeSet])[] {
  const { subnet, ranges } = ipam;
  return [
    ...(subnet === undefined ? [] : [["ipam", setOf([ipam])] as const]),
    ...(Array.isArray(ranges)
      ? ranges.map((set: unknown, at) => [`ipam.ranges[${String(at)}]`, setOf(set)] as const)
      : []),
  ];
}

function holds({ version, first, last, gateway }: Range, address: IpPrefix): boolean {
  const { value } = address;
  return version === address.version && value >= first && value <= last && value !== gateway;
}

/** From one that ends before it begins nothing can be given. */
function sizeOf({ first, last, gateway }: Range): bigint {
  if (last < first) return 0n;
  return last - first + 1n - (gateway >= first && gateway <= last ? 1n : 0n);
}

/**
 * What is in use of each set of ranges of host-local's configuration; those that only the plugin can judge are left out.
 * `leases`: names of the files in the network's directory, which are addresses and some others. Source: plugins host-local
 * backend/disk.
 */
export function rangeUseOf(ipam: JsonObject, leases: readonly string[]): readonly RangeUse[] {
  const addresses = leases.flatMap((name) => parseIp(name) ?? []);
  return namedSets(ipam).flatMap(([field, set]) => {
    if (set === undefined) return [];
    const size = set.reduce((sum, range) => sum + sizeOf(range), 0n);
    const isOfSet = (address: IpPrefix): boolean => set.some((range) => holds(range, address));
    return [{ field, size, used: addresses.filter(isOfSet).length }];
  });
}

/** What the node says of the needs of one definition. */
export interface DefinitionFacts {
  /** NAMESPACE/NAME. */
  readonly network: string;
  readonly needs: DefinitionNeeds;
  /** Of the programs that are needed, those that are there. */
  readonly plugins: ReadonlySet<string>;
  /** Where they are looked for, for people. */
  readonly pluginPath: string;
  /** Kinds of the node's links by name; undefined: they were not looked at, since none is needed. */
  readonly links: ReadonlyMap<string, string> | undefined;
  /** Whether bridges can filter VLANs; undefined: nobody knows. */
  readonly filtersVlans: boolean | undefined;
  /** Names of files in the directory of each pool, in the order of the pools. */
  readonly leases: readonly (readonly string[])[];
  /** A launcher of a VM on this node asks for the network. */
  readonly isAskedForGuests: boolean;
}

function invalid(network: string, field: string, what: string): AppError {
  const reason = `spec.config.${field}: ${what}`;
  return new AppError("CNI_CONFIG_INVALID", { network, reason });
}

function programProblem(
  plugin: string,
  { plugins, pluginPath: path }: DefinitionFacts,
): readonly AppError[] {
  return plugins.has(plugin) ? [] : [new AppError("CNI_PLUGIN_MISSING", { plugin, path })];
}

function linkProblem({ field, name: link }: Named, facts: DefinitionFacts): readonly AppError[] {
  const { network, links } = facts;
  if (links === undefined || links.has(link)) return [];
  return [new AppError("CNI_LINK_MISSING", { network, field, link })];
}

function bridgeProblem({ field, name: link }: Named, facts: DefinitionFacts): readonly AppError[] {
  const { network, links } = facts;
  const kind = links?.get(link);
  if (kind === undefined || kind === "bridge") return [];
  return [new AppError("CNI_LINK_UNFIT", { network, field, link })];
}

function poolProblem(
  { prefix, ipam }: AddressPool,
  leases: readonly string[],
  { network }: DefinitionFacts,
): readonly AppError[] {
  return rangeUseOf(ipam, leases).flatMap(({ field: name, size, used }) => {
    const field = `${prefix}${name}`;
    if (size === 0n) return [invalid(network, field, "holds no address that a pod could get")];
    const details = { network, field, size: String(size) };
    return BigInt(used) < size ? [] : [new AppError("CNI_ADDRESSES_EXHAUSTED", details)];
  });
}

/** All that keeps NICs from being made, as the errors with which an attachment would fail; the gravest first. */
export function problemsOf(facts: DefinitionFacts): readonly AppError[] {
  const { network, needs, filtersVlans, leases, isAskedForGuests } = facts;
  const { vlan: field, unfitForGuests: plugin } = needs;
  return [
    ...needs.plugins.flatMap((named) => programProblem(named, facts)),
    ...needs.links.flatMap((named) => linkProblem(named, facts)),
    ...needs.bridges.flatMap((named) => bridgeProblem(named, facts)),
    ...(field !== undefined && filtersVlans === false
      ? [new AppError("CNI_VLAN_UNSUPPORTED", { network, field })]
      : []),
    ...needs.pools.flatMap((pool, at) => poolProblem(pool, leases[at] ?? [], facts)),
    ...(plugin !== undefined && isAskedForGuests
      ? [new AppError("CNI_CANNOT_CARRY_VM", { network, plugin })]
      : []),
  ];
}
