// SPDX-License-Identifier: Apache-2.0
// Converts CNI results to elements of the annotation `network-status`. Source: NPWG 1.3 section 5
import { parseIp, type NetworkStatus } from "@patchbay/api";
import type { CniResult } from "@patchbay/core/interfaces";
import { isAtLeast } from "./version.ts";

const DEFAULT_DESTINATIONS = ["0.0.0.0/0", "::/0", ""];

type Nic = NonNullable<CniResult["interfaces"]>[number];

interface SandboxNic {
  /** Index in the interfaces of the result; undefined if it has none. */
  readonly index: number | undefined;
  readonly nic: Partial<Nic>;
}

function listSandboxNics(result: CniResult): readonly SandboxNic[] {
  return (
    result.interfaces?.flatMap((nic, index) =>
      nic.sandbox === undefined || nic.sandbox === "" ? [] : [{ index, nic }],
    ) ?? []
  );
}

/** The requested interface. A result without interfaces (before 0.3.0), or with another name for it, means the first one. */
function findRequestedNic(places: readonly SandboxNic[], interfaceName: string): SandboxNic {
  const named = places.find(({ nic }) => nic.name === interfaceName);
  return named ?? places[0] ?? { index: undefined, nic: {} };
}

/** Addresses without a valid interface belong to the requested one. */
function listAddresses(
  result: CniResult,
  index: number | undefined,
  isRequested: boolean,
): readonly string[] {
  const known = result.interfaces?.length ?? 0;
  return (result.ips ?? [])
    .filter(({ interface: owner }) =>
      owner === undefined || owner < 0 || owner >= known ? isRequested : owner === index,
    )
    .map(({ address }) => address.replace(/\/.*/, ""));
}

/** Gateways of default routes. A default route without one uses the gateways of the addresses. */
function listGateways(result: CniResult): readonly string[] {
  const routes = (result.routes ?? []).filter((route) =>
    // Plugins may omit `dst`, which the type does not allow.
    DEFAULT_DESTINATIONS.includes((route as { readonly dst?: string }).dst ?? ""),
  );
  const ofAddresses = result.ips?.map(({ gateway }) => gateway) ?? [];
  const gateways = routes.flatMap(({ gw }) => (gw === undefined ? ofAddresses : [gw]));
  return [...new Set(gateways.filter((gateway) => gateway !== undefined))];
}

function readHardware({ mac = "", mtu = 0 }: Partial<Nic>): Pick<NetworkStatus, "mac" | "mtu"> {
  return { ...(mac === "" ? {} : { mac }), ...(mtu === 0 ? {} : { mtu }) };
}

export interface AdditionalFacts {
  /** Gateways of default routes that were set instead of the network's own. */
  readonly gateways?: readonly string[];
}

/** The gateways that were set, and the result's for other IP versions. */
function allGateways(result: CniResult, set: readonly string[]): readonly string[] {
  const versions = new Set(set.map((gateway) => parseIp(gateway)?.version));
  const otherGateways = listGateways(result).filter(
    (each) => !versions.has(parseIp(each)?.version),
  );
  return [...set, ...otherGateways];
}

function buildElement(
  result: CniResult,
  { nic, index }: SandboxNic,
  {
    name,
    requestedName,
    beside: { gateways = [] },
  }: {
    readonly name: string;
    readonly requestedName: string | undefined;
    readonly beside: AdditionalFacts;
  },
): NetworkStatus {
  const isRequested = requestedName !== undefined;
  const ips = listAddresses(result, index, isRequested);
  const gateway = isRequested ? allGateways(result, gateways) : [];
  return {
    name,
    interface: requestedName ?? nic.name ?? "",
    ...(ips.length === 0 ? {} : { ips }),
    ...readHardware(nic),
    dns: result.dns ?? {},
    ...(gateway.length === 0 ? {} : { gateway }),
  };
}

/** The first version whose results name interfaces. Source: CNI SPEC 0.3.0 */
const INTERFACES_SINCE = "0.3.0";

/**
 * Whether the plugins created no NIC and assigned no address, like KubeVirt's network binding plugin passt. Results
 * before 0.3.0 cannot name interfaces.
 */
function hasNoInterface({ cniVersion, interfaces = [], ips = [] }: CniResult): boolean {
  return interfaces.length === 0 && ips.length === 0 && isAtLeast(cniVersion, INTERFACES_SINCE);
}

function buildElements(
  result: CniResult,
  { name, interfaceName }: { readonly name: string; readonly interfaceName: string },
  beside: AdditionalFacts,
): readonly NetworkStatus[] {
  const places = listSandboxNics(result);
  const own = findRequestedNic(places, interfaceName);
  return (places.length === 0 ? [own] : places).map((place) =>
    buildElement(result, place, {
      name,
      requestedName: place === own ? interfaceName : undefined,
      beside,
    }),
  );
}

/**
 * Elements of one attachment, one per NIC in the sandbox. `name`: NAMESPACE/NAME of the network. `interfaceName`:
 * CNI_IFNAME. Addresses have no prefix length; host interfaces are omitted. Like Multus, omits a result without
 * interfaces, because KubeVirt derives its naming scheme for all NICs from the names in the status. Source: NPWG 1.3
 * section 5.3; KubeVirt PodHasOrdinalInterfaceName
 */
export function buildNetworkStatuses(
  result: CniResult,
  name: string,
  interfaceName: string,
  beside: AdditionalFacts = {},
): readonly NetworkStatus[] {
  return hasNoInterface(result) ? [] : buildElements(result, { name, interfaceName }, beside);
}

export function findNetworkStatus(
  result: CniResult,
  name: string,
  interfaceName: string,
): NetworkStatus {
  const own = findRequestedNic(listSandboxNics(result), interfaceName);
  return buildElement(result, own, { name, requestedName: interfaceName, beside: {} });
}

/** The NIC with a gateway, otherwise the first. Source: NPWG 1.3 section 5.3.5; its client, CreateNetworkStatuses */
function findDefaultNic(result: CniResult, interfaceName: string): string | undefined {
  const gated = result.ips?.find(
    ({ gateway, interface: owner }) => gateway !== undefined && owner !== undefined,
  );
  const place = listSandboxNics(result).find(({ index }) => index === gated?.interface);
  return place === undefined ? interfaceName : place.nic.name;
}

/** Elements of a pod's default network, one of which is marked as default. */
export function buildDefaultNetworkStatuses(
  result: CniResult,
  name: string,
  interfaceName: string,
): readonly NetworkStatus[] {
  const entries = buildElements(result, { name, interfaceName }, {});
  const nic = findDefaultNic(result, interfaceName);
  const at = Math.max(
    0,
    entries.findIndex((entry) => entry.interface === nic),
  );
  return entries.map((entry, index) => (index === at ? { ...entry, default: true } : entry));
}
