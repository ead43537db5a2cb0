// SPDX-License-Identifier: Apache-2.0
// Which addresses are reported of an iface, whose word they are, and since when.
import {
  isLinkLocal,
  parseIp,
  printAddress,
  type AddressSource,
  type IfaceStatus,
} from "@patchbay/api";
import { isEqual } from "../../equal.ts";
import type { IfaceFacts } from "../../iface/facts.ts";
import { leaseOf, moduleOf } from "../../iface/links/wiring.ts";

/** When it is told. */
export interface AddressMoment {
  /** RFC 3339. */
  readonly now: string;
  /** Since when the guest's agent has not listened, RFC 3339; absent: it does. */
  readonly silentSince?: string;
}

type AddressFields = Pick<IfaceStatus, "ipAddress" | "ipAddresses" | "addressInfo">;

const FAMILIES = { 4: "ipv4", 6: "ipv6" } as const;

interface Told {
  readonly addresses: readonly string[];
  readonly by: "pod" | "guest-agent" | undefined;
}

/** Both families, in the order of the pod's addresses. */
function podAddresses({ attachment }: IfaceFacts): readonly string[] {
  return [...new Set((attachment?.ips ?? []).flatMap(parsedAddress))];
}

function parsedAddress(text: string): readonly string[] {
  const parsed = parseIp(text);
  return parsed === undefined ? [] : [printAddress(parsed)];
}

function familyOf(address: string): number | undefined {
  return parseIp(address)?.version;
}

function ofFamily(addresses: readonly string[], family: 4 | 6): readonly string[] {
  return addresses.filter((address) => familyOf(address) === family);
}

/** What DHCP gives of the NIC's addresses: one IPv4 address. Where nothing is served, all of them may be the guest's. */
function servedAddresses(facts: IfaceFacts, family: 4 | 6): readonly string[] {
  const addresses = ofFamily(podAddresses(facts), family);
  const { ipv4 } = leaseOf(facts) ?? {};
  if (family === 6 || ipv4 === undefined) return addresses;
  const served = addresses.filter((address) => parsedAddress(ipv4.address).includes(address));
  return served.length === 0 ? addresses : served;
}

/**
 * One family: what the guest has, and what CNI gave it until that is known. Behind the pod's addresses a guest can be
 * reached by none of its own; where the pod has none, it is told what the guest has.
 */
function toldOf(facts: IfaceFacts, family: 4 | 6): Told {
  const guest = facts.device?.guest?.[FAMILIES[family]];
  if (moduleOf(facts).addressesOf === "pod") {
    const pod = ofFamily(podAddresses(facts), family);
    if (pod.length > 0) return { addresses: pod, by: "pod" };
    const reachable = (guest ?? []).filter((address) => !isLinkLocal(address));
    return { addresses: reachable, by: reachable.length > 0 ? "guest-agent" : undefined };
  }
  if (guest !== undefined) return { addresses: guest, by: "guest-agent" };
  const served = servedAddresses(facts, family);
  return { addresses: served, by: served.length > 0 ? "pod" : undefined };
}

function sourceOf(told: readonly Told[]): AddressSource | undefined {
  const tellers = new Set(told.map(({ by }) => by));
  if (!tellers.has("guest-agent")) return tellers.has("pod") ? "pod" : undefined;
  return tellers.has("pod") ? "pod, guest-agent" : "guest-agent";
}

/**
 * The pod's primary family first, and in each family the pod's addresses before those that the guest chose. Addresses of the
 * link alone come last. Source: Kubernetes PodStatus, podIPs: the first one is the primary one
 */
function inOrderOfPod(addresses: readonly string[], pod: readonly string[]): readonly string[] {
  const families = [...new Set([...pod.map(familyOf), 4, 6])];
  const rank = (address: string): number => (pod.includes(address) ? 0 : 1);
  const ordered = families.flatMap((family) =>
    addresses
      .filter((address) => familyOf(address) === family)
      .toSorted((left, right) => rank(left) - rank(right) || positionIn(pod, left, right)),
  );
  return [...ordered.filter((each) => !isLinkLocal(each)), ...ordered.filter(isLinkLocal)];
}

function positionIn(pod: readonly string[], left: string, right: string): number {
  return pod.indexOf(left) - pod.indexOf(right);
}

/**
 * The addresses, in the pod's order, and their source. The time is that of the first report with the same addresses and source; a
 * report without addresses has one too, which tells a guest without addresses from one that was not asked.
 */
export function addressFields(
  facts: IfaceFacts,
  { now, silentSince }: AddressMoment,
): AddressFields {
  const told = [toldOf(facts, 4), toldOf(facts, 6)];
  const addresses = inOrderOfPod(
    told.flatMap((family) => family.addresses),
    podAddresses(facts),
  );
  const source = sourceOf(told);
  if (source === undefined) return {};
  const { ipAddresses = [], addressInfo } = facts.reported ?? {};
  const isOld = addressInfo?.source === source && isEqual(ipAddresses, addresses);
  const [first] = addresses;
  return {
    ...(first === undefined ? {} : { ipAddress: first, ipAddresses: [...addresses] }),
    addressInfo: {
      source,
      since: isOld ? addressInfo.since : now,
      ...(silentSince === undefined || source === "pod" ? {} : { silentSince }),
    },
  };
}
