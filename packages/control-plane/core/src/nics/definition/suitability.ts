// SPDX-License-Identifier: Apache-2.0
// Checks whether this node can create NICs from a network definition, before a pod requests a NIC.
import { isJsonObject, type JsonObject } from "@patchbay/api/json";
import { IP_BITS, isWithin, toNetworkAddress, parseIp, type IpPrefix } from "@patchbay/api/values";
import { AppError } from "@patchbay/base";
import { readText, type NamedField, type AddressPool, type DefinitionNeeds } from "./needs.ts";

interface Range {
  readonly version: 4 | 6;
  readonly first: bigint;
  readonly last: bigint;
  readonly gateway: bigint;
}

/** Set of ranges from which host-local assigns one address; undefined if a range is invalid or unsupported. */
type RangeSet = readonly Range[] | undefined;

interface RangeUse {
  /** Path of the range set in messages: `ipam.ranges[0]`, or `ipam` in host-local's old format. */
  readonly field: string;
  readonly size: bigint;
  readonly used: number;
}

/** Parses an address. Returns `fallback` if `text` is undefined. Returns undefined if the address is invalid or not in the subnet. */
function parseWithin(
  text: string | undefined,
  subnet: IpPrefix,
  fallback: bigint,
): bigint | undefined {
  if (text === undefined) return fallback;
  const address = parseIp(text);
  return address !== undefined && isWithin({ ...address, length: IP_BITS[address.version] }, subnet)
    ? address.value
    : undefined;
}

/** Parses a range and adds host-local's defaults. Source: plugins host-local backend/allocator range.go Canonicalize. */
function parseRange(value: unknown): Range | undefined {
  const subnet = isJsonObject(value) ? parseIp(readText(value, "subnet") ?? "") : undefined;
  if (!isJsonObject(value) || subnet === undefined) return undefined;
  const { version, length } = subnet;
  const bits = BigInt(IP_BITS[version] - length);
  const base = toNetworkAddress(subnet).value;
  const end = base + (1n << bits) - 1n;
  const lastUsable = version === 4 ? end - 1n : end;
  const first = parseWithin(readText(value, "rangeStart"), subnet, base + 1n);
  const last = parseWithin(readText(value, "rangeEnd"), subnet, lastUsable);
  const gateway = parseWithin(readText(value, "gateway"), subnet, base + 1n);
  if (bits < 2n || first === undefined || last === undefined) return undefined;
  return { version, first, last, gateway: gateway ?? -1n };
}

function parseRangeSet(value: unknown): RangeSet {
  if (!Array.isArray(value) || value.length === 0) return undefined;
  const ranges = value.map(parseRange);
  return ranges.every((range) => range !== undefined) ? ranges : undefined;
}

function listRangeSets(ipam: JsonObject): readonly (readonly [string, RangeSet])[] {
  const { subnet, ranges } = ipam;
  return [
    ...(subnet === undefined ? [] : [["ipam", parseRangeSet([ipam])] as const]),
    ...(Array.isArray(ranges)
      ? ranges.map(
          (set: unknown, index) => [`ipam.ranges[${String(index)}]`, parseRangeSet(set)] as const,
        )
      : []),
  ];
}

function contains({ version, first, last, gateway }: Range, address: IpPrefix): boolean {
  const { value } = address;
  return version === address.version && value >= first && value <= last && value !== gateway;
}

function countAddresses({ first, last, gateway }: Range): bigint {
  if (last < first) return 0n;
  return last - first + 1n - (gateway >= first && gateway <= last ? 1n : 0n);
}

/** Counts each valid range set's addresses, and how many of them are leased. `leases` are the names of host-local's lease files. */
export function measureRangeUse(ipam: JsonObject, leases: readonly string[]): readonly RangeUse[] {
  const addresses = leases.flatMap((name) => parseIp(name) ?? []);
  return listRangeSets(ipam).flatMap(([field, set]) => {
    if (set === undefined) return [];
    const size = set.reduce((sum, range) => sum + countAddresses(range), 0n);
    const isInSet = (address: IpPrefix): boolean => set.some((range) => contains(range, address));
    return [{ field, size, used: addresses.filter(isInSet).length }];
  });
}

export interface DefinitionFacts {
  readonly network: string;
  readonly needs: DefinitionNeeds;
  readonly plugins: ReadonlySet<string>;
  readonly pluginPath: string;
  /** Kinds of the node's links by name; undefined if the links were not read because the definition requires none. */
  readonly links: ReadonlyMap<string, string> | undefined;
  /** Whether bridges can filter VLANs; undefined if unknown. */
  readonly canFilterVlans: boolean | undefined;
  /** Names of the lease files of each pool, in the order of `needs.pools`. */
  readonly leases: readonly (readonly string[])[];
  readonly isRequestedByLauncher: boolean;
}

function toConfigError(network: string, field: string, message: string): AppError {
  const reason = `spec.config.${field}: ${message}`;
  return new AppError("CNI_CONFIG_INVALID", { network, reason });
}

function findProgramProblem(
  plugin: string,
  { plugins, pluginPath: path }: DefinitionFacts,
): readonly AppError[] {
  return plugins.has(plugin) ? [] : [new AppError("CNI_PLUGIN_MISSING", { plugin, path })];
}

function findLinkProblem(
  { field, name: link }: NamedField,
  facts: DefinitionFacts,
): readonly AppError[] {
  const { network, links } = facts;
  if (links === undefined || links.has(link)) return [];
  return [new AppError("CNI_LINK_MISSING", { network, field, link })];
}

function findBridgeProblem(
  { field, name: link }: NamedField,
  facts: DefinitionFacts,
): readonly AppError[] {
  const { network, links } = facts;
  const kind = links?.get(link);
  if (kind === undefined || kind === "bridge") return [];
  return [new AppError("CNI_LINK_UNFIT", { network, field, link })];
}

function findPoolProblem(
  { prefix, ipam }: AddressPool,
  leases: readonly string[],
  { network }: DefinitionFacts,
): readonly AppError[] {
  return measureRangeUse(ipam, leases).flatMap(({ field: name, size, used }) => {
    const field = `${prefix}${name}`;
    if (size === 0n) return [toConfigError(network, field, "has no address for a pod")];
    const details = { network, field, size: String(size) };
    return BigInt(used) < size ? [] : [new AppError("CNI_ADDRESSES_EXHAUSTED", details)];
  });
}

/** Returns the problems that would make an attachment fail or make it useless to a VM, the most severe first. */
export function findDefinitionProblems(facts: DefinitionFacts): readonly AppError[] {
  const { network, needs, canFilterVlans, leases, isRequestedByLauncher } = facts;
  const { vlan: field, unfitPlugin: plugin } = needs;
  return [
    ...needs.plugins.flatMap((named) => findProgramProblem(named, facts)),
    ...needs.links.flatMap((named) => findLinkProblem(named, facts)),
    ...needs.bridges.flatMap((named) => findBridgeProblem(named, facts)),
    ...(field !== undefined && canFilterVlans === false
      ? [new AppError("CNI_VLAN_UNSUPPORTED", { network, field })]
      : []),
    ...needs.pools.flatMap((pool, index) => findPoolProblem(pool, leases[index] ?? [], facts)),
    ...(plugin !== undefined && isRequestedByLauncher
      ? [new AppError("CNI_CANNOT_CARRY_VM", { network, plugin })]
      : []),
  ];
}
