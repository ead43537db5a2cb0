// SPDX-License-Identifier: Apache-2.0
// What a CNI result says in the annotation `network-status`. Source: NPWG 1.3 section 5.
import { parseIp, type NetworkStatus } from "@patchbay/api";
import type { CniResult } from "@patchbay/core/ports";
import { isAtLeast } from "./version.ts";

const DEFAULT_DESTINATIONS = ["0.0.0.0/0", "::/0", ""];

type Nic = NonNullable<CniResult["interfaces"]>[number];

/** One NIC in the sandbox. */
interface Place {
  /** Its place among the interfaces of the result; undefined for a result that names none. */
  readonly index: number | undefined;
  readonly nic: Partial<Nic>;
}

function placesOf(result: CniResult): readonly Place[] {
  return (
    result.interfaces?.flatMap((nic, index) =>
      nic.sandbox === undefined || nic.sandbox === "" ? [] : [{ index, nic }],
    ) ?? []
  );
}

/** A result without interfaces (before 0.3.0) means the one that was asked for, and so does one that names it otherwise. */
function askedPlaceOf(places: readonly Place[], interfaceName: string): Place {
  const named = places.find(({ nic }) => nic.name === interfaceName);
  return named ?? places[0] ?? { index: undefined, nic: {} };
}

/** What the result says of no NIC in particular is said of the one that was asked for. */
function addressesOf(
  result: CniResult,
  index: number | undefined,
  isAsked: boolean,
): readonly string[] {
  const known = result.interfaces?.length ?? 0;
  return (result.ips ?? [])
    .filter(({ interface: owner }) =>
      owner === undefined || owner < 0 || owner >= known ? isAsked : owner === index,
    )
    .map(({ address }) => address.replace(/\/.*/, ""));
}

/** Gateways of default routes; a default route without one means the gateway of the addresses. */
function gatewaysOf(result: CniResult): readonly string[] {
  const routes = (result.routes ?? []).filter((route) =>
    // Plugins may leave `dst` out; the type does not know it.
    DEFAULT_DESTINATIONS.includes((route as { readonly dst?: string }).dst ?? ""),
  );
  const ofAddresses = result.ips?.map(({ gateway }) => gateway) ?? [];
  const gateways = routes.flatMap(({ gw }) => (gw === undefined ? ofAddresses : [gw]));
  return [...new Set(gateways.filter((gateway) => gateway !== undefined))];
}

function hardwareOf({ mac = "", mtu = 0 }: Partial<Nic>): Pick<NetworkStatus, "mac" | "mtu"> {
  return { ...(mac === "" ? {} : { mac }), ...(mtu === 0 ? {} : { mtu }) };
}

/** What is known of an attachment beside its result, told of the NIC that was asked for. */
export interface BesideResult {
  /** Of default routes that were set instead of the network's own, of each family. */
  readonly gateways?: readonly string[];
}

/** Those that were set, and the result's of other families. */
function allGateways(result: CniResult, set: readonly string[]): readonly string[] {
  const versions = new Set(set.map((gateway) => parseIp(gateway)?.version));
  const others = gatewaysOf(result).filter((each) => !versions.has(parseIp(each)?.version));
  return [...set, ...others];
}

function entryOf(
  result: CniResult,
  { nic, index }: Place,
  {
    name,
    asked,
    beside: { gateways = [] },
  }: { readonly name: string; readonly asked: string | undefined; readonly beside: BesideResult },
): NetworkStatus {
  const isAsked = asked !== undefined;
  const ips = addressesOf(result, index, isAsked);
  const gateway = isAsked ? allGateways(result, gateways) : [];
  return {
    name,
    interface: asked ?? nic.name ?? "",
    ...(ips.length === 0 ? {} : { ips }),
    ...hardwareOf(nic),
    dns: result.dns ?? {},
    ...(gateway.length === 0 ? {} : { gateway }),
  };
}

/** The first version whose results name interfaces. Source: CNI SPEC 0.3.0. */
const FIRST_WITH_INTERFACES = "0.3.0";

/**
 * Whether the plugins report that they made no NIC and assigned no address, as KubeVirt's network binding plugins do (passt's,
 * for one). Results before 0.3.0 cannot name interfaces.
 */
function isWithoutInterface({ cniVersion, interfaces = [], ips = [] }: CniResult): boolean {
  return (
    interfaces.length === 0 && ips.length === 0 && isAtLeast(cniVersion, FIRST_WITH_INTERFACES)
  );
}

function entriesOf(
  result: CniResult,
  { name, interfaceName }: { readonly name: string; readonly interfaceName: string },
  beside: BesideResult,
): readonly NetworkStatus[] {
  const places = placesOf(result);
  const own = askedPlaceOf(places, interfaceName);
  return (places.length === 0 ? [own] : places).map((place) =>
    entryOf(result, place, { name, asked: place === own ? interfaceName : undefined, beside }),
  );
}

/**
 * The entries for one attachment, one for each NIC that it has in the sandbox: `name` is NAMESPACE/NAME of the network,
 * `interfaceName` what was asked as CNI_IFNAME. Addresses carry no prefix length and go to the entry of their NIC;
 * those of host interfaces are left out. A result without any interface has no entry, as with Multus: KubeVirt derives from the
 * names in the status how it names all NICs of the pod. Source: NPWG 1.3 section 5.3; KubeVirt PodHasOrdinalInterfaceName.
 */
export function networkStatusesOf(
  result: CniResult,
  name: string,
  interfaceName: string,
  beside: BesideResult = {},
): readonly NetworkStatus[] {
  return isWithoutInterface(result) ? [] : entriesOf(result, { name, interfaceName }, beside);
}

/** The entry for the NIC that was asked for. */
export function networkStatusOf(
  result: CniResult,
  name: string,
  interfaceName: string,
): NetworkStatus {
  const own = askedPlaceOf(placesOf(result), interfaceName);
  return entryOf(result, own, { name, asked: interfaceName, beside: {} });
}

/** The NIC whose address has a gateway, else the first. Source: NPWG 1.3 section 5.3.5; its client, CreateNetworkStatuses. */
function defaultNicOf(result: CniResult, interfaceName: string): string | undefined {
  const gated = result.ips?.find(
    ({ gateway, interface: owner }) => gateway !== undefined && owner !== undefined,
  );
  const place = placesOf(result).find(({ index }) => index === gated?.interface);
  return place === undefined ? interfaceName : place.nic.name;
}

/** The entries for a pod's default network, whose name is that of its configuration; one of them says that it is that. */
export function defaultNetworkStatusesOf(
  result: CniResult,
  name: string,
  interfaceName: string,
): readonly NetworkStatus[] {
  const entries = entriesOf(result, { name, interfaceName }, {});
  const nic = defaultNicOf(result, interfaceName);
  const at = Math.max(
    0,
    entries.findIndex((entry) => entry.interface === nic),
  );
  return entries.map((entry, index) => (index === at ? { ...entry, default: true } : entry));
}
