// SPDX-License-Identifier: Apache-2.0
import type { AddressSource, IfaceStatus } from "@patchbay/api";
import { isLinkLocal, parseIp, printAddress } from "@patchbay/api/values";
import { isEqual } from "@patchbay/base";
import type { IfaceFacts } from "../nics/facts.ts";
import { buildLease, findBindingModule } from "../nics/node-plan.ts";

export interface AddressContext {
  readonly now: string;
  /** RFC 3339 time at which the guest agent stopped responding. Unset while the agent responds. */
  readonly silentSince?: string;
}

type AddressFields = Pick<IfaceStatus, "ipAddress" | "ipAddresses" | "addressInfo">;

const FAMILY_KEYS = { 4: "ipv4", 6: "ipv6" } as const;

interface FamilyAddresses {
  readonly addresses: readonly string[];
  readonly source: "pod" | "guest-agent" | undefined;
}

function listPodAddresses({ attachment }: IfaceFacts): readonly string[] {
  return [...new Set((attachment?.ips ?? []).flatMap(normalizeAddress))];
}

function normalizeAddress(text: string): readonly string[] {
  const parsed = parseIp(text);
  return parsed === undefined ? [] : [printAddress(parsed)];
}

function findFamily(address: string): number | undefined {
  return parseIp(address)?.version;
}

function filterByFamily(addresses: readonly string[], family: 4 | 6): readonly string[] {
  return addresses.filter((address) => findFamily(address) === family);
}

/** Returns the pod's addresses of one family. If DHCP leases one of them to the guest, returns only that address. */
function listServedAddresses(facts: IfaceFacts, family: 4 | 6): readonly string[] {
  const addresses = filterByFamily(listPodAddresses(facts), family);
  const { ipv4 } = buildLease(facts) ?? {};
  if (family === 6 || ipv4 === undefined) return addresses;
  const served = addresses.filter((address) => normalizeAddress(ipv4.address).includes(address));
  return served.length === 0 ? addresses : served;
}

/**
 * Returns the addresses of one family: the guest agent's, or the pod's if the agent's are unknown. With NAT, the pod's
 * addresses take precedence, because other hosts cannot reach the guest's addresses.
 */
function chooseAddresses(facts: IfaceFacts, family: 4 | 6): FamilyAddresses {
  const guest = facts.device?.guest?.[FAMILY_KEYS[family]];
  if (findBindingModule(facts).addressSource === "pod") {
    const pod = filterByFamily(listPodAddresses(facts), family);
    if (pod.length > 0) return { addresses: pod, source: "pod" };
    const reachable = (guest ?? []).filter((address) => !isLinkLocal(address));
    return { addresses: reachable, source: reachable.length > 0 ? "guest-agent" : undefined };
  }
  if (guest !== undefined) return { addresses: guest, source: "guest-agent" };
  const served = listServedAddresses(facts, family);
  return { addresses: served, source: served.length > 0 ? "pod" : undefined };
}

function combineSources(reported: readonly FamilyAddresses[]): AddressSource | undefined {
  const sources = new Set(reported.map(({ source }) => source));
  if (!sources.has("guest-agent")) return sources.has("pod") ? "pod" : undefined;
  return sources.has("pod") ? "pod, guest-agent" : "guest-agent";
}

/**
 * Sorts by family, the pod's primary family first. In each family the pod's addresses come first. Link-local addresses come
 * last overall. Source: Kubernetes PodStatus.podIPs, whose first address is the primary address.
 */
function sortAddresses(addresses: readonly string[], pod: readonly string[]): readonly string[] {
  const families = [...new Set([...pod.map(findFamily), 4, 6])];
  const rankAddress = (address: string): number => (pod.includes(address) ? 0 : 1);
  const ordered = families.flatMap((family) =>
    addresses
      .filter((address) => findFamily(address) === family)
      .toSorted(
        (left, right) =>
          rankAddress(left) - rankAddress(right) || comparePositions(pod, left, right),
      ),
  );
  return [...ordered.filter((each) => !isLinkLocal(each)), ...ordered.filter(isLinkLocal)];
}

function comparePositions(pod: readonly string[], left: string, right: string): number {
  return pod.indexOf(left) - pod.indexOf(right);
}

function chooseSource(facts: IfaceFacts): {
  readonly addresses: readonly string[];
  readonly source: AddressSource | undefined;
} {
  const reported = [chooseAddresses(facts, 4), chooseAddresses(facts, 6)];
  const source = combineSources(reported);
  if (source !== undefined) {
    return { addresses: reported.flatMap((family) => family.addresses), source };
  }
  const { device, learned = [] } = facts;
  return { addresses: learned, source: device && learned.length > 0 ? "learned" : undefined };
}

/** Builds the address fields of the status. `since` is the time of the first report with these addresses and this source. */
export function buildAddressFields(
  facts: IfaceFacts,
  { now, silentSince }: AddressContext,
): AddressFields {
  const { source, addresses: unsorted } = chooseSource(facts);
  const addresses = sortAddresses(unsorted, listPodAddresses(facts));
  if (source === undefined) return {};
  const { ipAddresses = [], addressInfo } = facts.reported ?? {};
  const isUnchanged = addressInfo?.source === source && isEqual(ipAddresses, addresses);
  const [first] = addresses;
  return {
    ...(first === undefined ? {} : { ipAddress: first, ipAddresses: [...addresses] }),
    addressInfo: {
      source,
      since: isUnchanged ? addressInfo.since : now,
      ...(silentSince === undefined || !source.includes("guest-agent") ? {} : { silentSince }),
    },
  };
}
