// SPDX-License-Identifier: Apache-2.0
// Addresses, routes and ports of the node that networks of tenants may use. Plugins assign them as root.
import { parsePortRange, POLICY_FIELDS } from "@patchbay/api";
import { isJsonObject, type JsonObject } from "@patchbay/api/json";
import { isWithin, parseIp, printAddress, type IpPrefix } from "@patchbay/api/values";
import type { NetworkConfigList } from "../../interfaces/cni.ts";
import { readText } from "../definition/needs.ts";
import {
  describeRefusal,
  foldCase,
  listAllPlugins,
  listBridges,
  listChildren,
  listNamedBridges,
  overlaps,
  parsePrefixes,
  type ConfigMember,
  type NamedValue,
  type PluginMember,
  type TenantPolicy,
} from "./tenant-policy.ts";

export interface NodeSubnet {
  readonly prefix: IpPrefix;
  readonly link: string;
  /** Whether a CNI plugin created the link: a bridge that net-agent recorded, or the veth of a pod with only a host route. */
  readonly isOfPlugin: boolean;
}

/** Members that give the node an address, or rules for the pods' addresses. Source: plugins bridge, ptp. */
const NODE_ADDRESS_MEMBERS: readonly string[] = ["isGateway", "isDefaultGateway", "ipMasq"];
const FOLDED_MEMBERS = NODE_ADDRESS_MEMBERS.map(foldCase);
const GATEWAY_MEMBERS = FOLDED_MEMBERS.filter((name) => name.endsWith("gateway"));
const FORCE_MEMBERS = ["forceaddress"];
const NODE_ADDRESS_PLUGINS: readonly string[] = ["ptp", "firewall"];

function findEnabledMember(plugin: JsonObject, folded: readonly string[]): string | undefined {
  const member = Object.entries(plugin).find(
    ([name, value]) => folded.includes(foldCase(name)) && value !== false && value !== null,
  );
  return member?.[0];
}

function findPurpose({ prefix, plugin }: PluginMember): string | undefined {
  const type = readText(plugin, "type") ?? "";
  if (NODE_ADDRESS_PLUGINS.includes(type)) return `${prefix}type ${type}`;
  const member = findEnabledMember(plugin, FOLDED_MEMBERS);
  return member === undefined ? undefined : `${prefix}${member}`;
}

export function findNodeAddressMember(config: NetworkConfigList): string | undefined {
  for (const member of listAllPlugins(config)) {
    const purpose = findPurpose(member);
    if (purpose !== undefined) return purpose;
  }
  return undefined;
}

/** IPAM plugins that assign only addresses from the definition, or requested ones. Source: plugins host-local, static; whereabouts. */
const KNOWN_IPAMS: readonly string[] = ["host-local", "static", "whereabouts"];
const OTHER_MEMBERS: readonly string[] = ["routes", "dns", "exclude", "omit_ranges", "type"];
const ADDRESS_MEMBERS: readonly string[] = [
  "subnet",
  "range",
  "address",
  "gateway",
  "rangestart",
  "rangeend",
  "range_start",
  "range_end",
];

function listNested(parent: ConfigMember): readonly ConfigMember[] {
  return listChildren(parent).filter(({ member }) => !OTHER_MEMBERS.includes(foldCase(member)));
}

function splitRange(text: string): readonly string[] {
  return text.split("-").map((part) => part.trim());
}

function readAddressText({ member, value }: ConfigMember): string | undefined {
  if (typeof value !== "string" || value === "") return undefined;
  const isAddress = splitRange(value).every((part) => parseIp(part) !== undefined);
  return isAddress || ADDRESS_MEMBERS.includes(foldCase(member)) ? value : undefined;
}

const ADDRESSES_MAX = 256;

function listAddresses(field: string, root: unknown): readonly NamedValue[] {
  const found: NamedValue[] = [];
  const pending: ConfigMember[] = [{ field, member: "", value: root }];
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    if (found.length > ADDRESSES_MAX) return found;
    const text = readAddressText(next);
    if (text !== undefined) found.push({ field: next.field, text });
    for (const child of text === undefined ? listNested(next).toReversed() : [])
      pending.push(child);
  }
  return found;
}

function listPluginAddresses({ prefix, plugin }: PluginMember): readonly NamedValue[] {
  return [
    ...listAddresses(`${prefix}ipam`, plugin["ipam"]),
    ...listAddresses(`${prefix}args`, plugin["args"]),
  ];
}

function printPrefix(prefix: IpPrefix): string {
  return `${printAddress(prefix)}/${String(prefix.length)}`;
}

function printSubnet({ prefix, link }: NodeSubnet): string {
  const of = link === "" ? "" : ` of link ${link}`;
  return `${printPrefix(prefix)}${of} of the node`;
}

export interface AddressContext {
  readonly policy: Pick<TenantPolicy, "ranges" | "clusterNetworks">;
  readonly subnets: readonly NodeSubnet[];
  /** Bridges of the node, and bridges that definitions of administrators name. A tenant's network does not own their addresses. */
  readonly foreignBridges: ReadonlySet<string>;
}

interface Range {
  readonly prefix: IpPrefix;
  readonly conflict?: string;
}

function findRangeConflict(
  range: IpPrefix,
  clusterNetworks: readonly IpPrefix[],
  subnets: readonly NodeSubnet[],
): string | undefined {
  if (clusterNetworks.length === 0) {
    const { flag } = POLICY_FIELDS.clusterNetworks;
    return `allows nothing until the pod networks and Service networks are named (${flag})`;
  }
  const network = clusterNetworks.find((candidate) => overlaps(candidate, range));
  if (network !== undefined) return `overlaps the cluster network ${printPrefix(network)}`;
  const subnet = subnets.find(({ prefix }) => overlaps(prefix, range));
  return subnet === undefined ? undefined : `overlaps ${printSubnet(subnet)}`;
}

function readRanges(
  { policy, subnets }: AddressContext,
  ownBridges: ReadonlySet<string>,
): readonly Range[] {
  const clusterNetworks = parsePrefixes(policy.clusterNetworks);
  const subnetsOfNode = subnets.filter(
    ({ link, isOfPlugin }) => !isOfPlugin && !ownBridges.has(link),
  );
  return parsePrefixes(policy.ranges).map((prefix) => {
    const conflict = findRangeConflict(prefix, clusterNetworks, subnetsOfNode);
    return { prefix, ...(conflict !== undefined && { conflict }) };
  });
}

interface Judge {
  readonly purpose: string;
  readonly ranges: readonly Range[];
  readonly otherSubnets: readonly NodeSubnet[];
}

function describeAddress(
  { purpose, ranges, otherSubnets }: Judge,
  text: string,
): string | undefined {
  const prefix = parseIp(text);
  if (prefix === undefined) return ", which is not an address";
  const containing = ranges.filter((range) => isWithin(prefix, range.prefix));
  const [range] = containing;
  if (range === undefined) return `, which is in no range that is allowed for ${purpose}`;
  if (containing.every(({ conflict }) => conflict !== undefined)) {
    return `, whose range ${printPrefix(range.prefix)} ${range.conflict ?? ""}`;
  }
  const other = otherSubnets.find((subnet) => overlaps(subnet.prefix, prefix));
  return other === undefined ? undefined : `, which overlaps ${printSubnet(other)}`;
}

function findTextProblems(judge: Judge, named: readonly NamedValue[]): readonly string[] {
  return named.flatMap((value) => {
    const [why] = splitRange(value.text).flatMap((part) => describeAddress(judge, part) ?? []);
    return why === undefined ? [] : [describeRefusal(value, "ranges", why)];
  });
}

function buildJudge(purpose: string, config: NetworkConfigList, context: AddressContext): Judge {
  const ownBridges = new Set(
    listNamedBridges(config).filter((bridge) => !context.foreignBridges.has(bridge)),
  );
  const ranges = readRanges(context, ownBridges);
  const otherSubnets = context.subnets.filter(
    ({ prefix, link, isOfPlugin }) =>
      !ownBridges.has(link) &&
      !(isOfPlugin && isHostRoute(prefix)) &&
      ranges.some((range) => overlaps(range.prefix, prefix)),
  );
  return { purpose, ranges, otherSubnets };
}

function isHostRoute({ version, length }: IpPrefix): boolean {
  return length === (version === 4 ? 32 : 128);
}

function findIpamProblems(purpose: string, { prefix, plugin }: PluginMember): readonly string[] {
  const { ipam } = plugin;
  const type = isJsonObject(ipam) ? readText(ipam, "type") : undefined;
  if (type === undefined || KNOWN_IPAMS.includes(type)) return [];
  const why = `, whose addresses for ${purpose} are unknown; use ${KNOWN_IPAMS.join(", ")}`;
  return [describeRefusal({ field: `${prefix}ipam.type`, text: type }, "ranges", why)];
}

/** Without `forceAddress`, plugin bridge fails on a bridge with another address. With it, the plugin removes that address. */
function findBridgeProblems(
  { prefix, plugin }: PluginMember,
  { foreignBridges }: AddressContext,
): readonly string[] {
  const { flag } = POLICY_FIELDS.trustedNamespaces;
  const isForced = findEnabledMember(plugin, FORCE_MEMBERS) !== undefined;
  const isGateway = findEnabledMember(plugin, GATEWAY_MEMBERS) !== undefined;
  const bridge = listBridges(plugin).find((name) => foreignBridges.has(name));
  return [
    ...(isForced ? [`${prefix}forceAddress, which removes addresses of the node (${flag})`] : []),
    ...(bridge === undefined || !isGateway
      ? []
      : [
          `${prefix}bridge "${bridge}" with a gateway, although an administrator uses it (${flag})`,
        ]),
  ];
}

function toNamedValues(label: string, ips: readonly string[]): readonly NamedValue[] {
  return ips.map((text, index) => ({ field: `${label} ips[${String(index)}]`, text }));
}

interface AddressSources {
  readonly config: NetworkConfigList;
  readonly requestedIps: readonly string[];
}

export function findAddressProblems(
  purpose: string,
  { config, requestedIps }: AddressSources,
  context: AddressContext,
): readonly string[] {
  const plugins = listAllPlugins(config);
  const addresses = [
    ...plugins.flatMap(listPluginAddresses),
    ...toNamedValues("requested", requestedIps),
  ];
  if (addresses.length > ADDRESSES_MAX) {
    const { flag } = POLICY_FIELDS.ranges;
    return [`more than ${String(ADDRESSES_MAX)} addresses for ${purpose} (${flag})`];
  }
  return [
    ...plugins.flatMap((member) => findBridgeProblems(member, context)),
    ...plugins.flatMap((member) => findIpamProblems(purpose, member)),
    ...findTextProblems(buildJudge(purpose, config, context), addresses),
  ];
}

interface AddressRequest extends AddressSources {
  readonly requestedArgs: unknown;
}

/** Addresses with their prefix length, because plugin bridge gives the node a route to the whole prefix. */
export function findRequestedProblems(
  purpose: string,
  { config, requestedIps, requestedArgs }: AddressRequest,
  context: AddressContext,
): readonly string[] {
  const ofDefinition = listAllPlugins(config)
    .flatMap(({ plugin }) => listAddresses("ipam", plugin["ipam"]))
    .flatMap(({ text }) => parsePrefixes(splitRange(text)));
  const requested = [
    ...listAddresses("requested cni-args", requestedArgs),
    ...toNamedValues("requested", requestedIps),
  ];
  const others = requested.filter(({ text }) => {
    const address = parseIp(text);
    return address === undefined || !ofDefinition.some((prefix) => isWithin(address, prefix));
  });
  return findTextProblems(buildJudge(purpose, config, context), others.slice(0, ADDRESSES_MAX));
}

export function findAssignedProblems(
  purpose: string,
  { config, ips }: { readonly config: NetworkConfigList; readonly ips: readonly string[] },
  context: AddressContext,
): readonly string[] {
  return findTextProblems(buildJudge(purpose, config, context), toNamedValues("assigned", ips));
}

function describePort(
  value: unknown,
  ports: readonly string[],
  listeningPorts: ReadonlySet<number> | undefined,
): string | undefined {
  const port = Number(value);
  if (listeningPorts === undefined) return "while the node's ports cannot be read";
  if (listeningPorts.has(port)) return "on which the node listens";
  const isAllowed = ports.some((text) => {
    const range = parsePortRange(text);
    return range !== undefined && port >= range.first && port <= range.last;
  });
  const { flag } = POLICY_FIELDS.ports;
  return isAllowed ? undefined : `which no administrator has allowed for tenants (${flag})`;
}

function readMappings(portMappings: unknown): readonly JsonObject[] {
  return Array.isArray(portMappings) ? portMappings.filter(isJsonObject) : [];
}

export function findPortProblems(
  portMappings: unknown,
  { ports }: Pick<TenantPolicy, "ports">,
  listeningPorts: ReadonlySet<number> | undefined,
): readonly string[] {
  return readMappings(portMappings).flatMap((mapping, index) =>
    Object.entries(mapping).flatMap(([name, value]) => {
      if (foldCase(name) !== "hostport") return [];
      const why = describePort(value, ports, listeningPorts);
      const field = `portMappings[${String(index)}].${name}`;
      return why === undefined ? [] : [`${field} ${JSON.stringify(value).slice(0, 16)}, ${why}`];
    }),
  );
}
