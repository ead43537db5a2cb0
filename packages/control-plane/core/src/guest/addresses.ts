// SPDX-License-Identifier: Apache-2.0
import type { AddressSource, IfaceStatus } from "@patchbay/api";
import { isLinkLocal, parseIp, printAddress } from "@patchbay/api/values";
import { isEqual } from "@patchbay/base";
import type { IfaceFacts } from "../nics/facts.ts";
import { buildLease, findBindingModule } from "../nics/node-plan.ts";

export interface AddressContext {
  readonly now: string;
  /** Time since which the guest agent has not responded, in RFC 3339. Unset while it responds. */
  readonly silentSince?: string;
}

type AddressFields = Pick<IfaceStatus, "ipAddress" | "ipAddresses" | "addressInfo">;

const FAMILIES = { 4: "ipv4", 6: "ipv6" } as const;

interface FamilyAddresses {
  readonly addresses: readonly string[];
  readonly by: "pod" | "guest-agent" | undefined;
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

function ofFamily(addresses: readonly string[], family: 4 | 6): readonly string[] {
  return addresses.filter((address) => findFamily(address) === family);
}

/** Lists the addresses that the pod offers: one IPv4 address with DHCP. Without DHCP the guest may use all of them. */
function listServedAddresses(facts: IfaceFacts, family: 4 | 6): readonly string[] {
  const addresses = ofFamily(listPodAddresses(facts), family);
  const { ipv4 } = buildLease(facts) ?? {};
  if (family === 6 || ipv4 === undefined) return addresses;
  const served = addresses.filter((address) => normalizeAddress(ipv4.address).includes(address));
  return served.length === 0 ? addresses : served;
}

/**
 * Returns the addresses of one family: the guest's, or the assigned ones until the agent reports. A guest behind the pod's
 * addresses has the pod's, because its own are unreachable; without a pod address it has its own.
 */
function reportedAddresses(facts: IfaceFacts, family: 4 | 6): FamilyAddresses {
  const guest = facts.device?.guest?.[FAMILIES[family]];
  if (findBindingModule(facts).addressSource === "pod") {
    const pod = ofFamily(listPodAddresses(facts), family);
    if (pod.length > 0) return { addresses: pod, by: "pod" };
    const reachable = (guest ?? []).filter((address) => !isLinkLocal(address));
    return { addresses: reachable, by: reachable.length > 0 ? "guest-agent" : undefined };
  }
  if (guest !== undefined) return { addresses: guest, by: "guest-agent" };
  const served = listServedAddresses(facts, family);
  return { addresses: served, by: served.length > 0 ? "pod" : undefined };
}

function combinedSource(reported: readonly FamilyAddresses[]): AddressSource | undefined {
  const sources = new Set(reported.map(({ by }) => by));
  if (!sources.has("guest-agent")) return sources.has("pod") ? "pod" : undefined;
  return sources.has("pod") ? "pod, guest-agent" : "guest-agent";
}

/**
 * Sorts the pod's primary family first, and in each family the assigned addresses first. Link-local addresses come last.
 * Source: Kubernetes PodStatus.podIPs, whose first address is the primary one.
 */
function sortAddresses(addresses: readonly string[], pod: readonly string[]): readonly string[] {
  const families = [...new Set([...pod.map(findFamily), 4, 6])];
  const rankOf = (address: string): number => (pod.includes(address) ? 0 : 1);
  const ordered = families.flatMap((family) =>
    addresses
      .filter((address) => findFamily(address) === family)
      .toSorted(
        (left, right) => rankOf(left) - rankOf(right) || comparePositions(pod, left, right),
      ),
  );
  return [...ordered.filter((each) => !isLinkLocal(each)), ...ordered.filter(isLinkLocal)];
}

function comparePositions(pod: readonly string[], left: string, right: string): number {
  return pod.indexOf(left) - pod.indexOf(right);
}

/**
 * Builds the status fields: the addresses, their source, and the time of the first report with both. A report without
 * addresses has a time too, which distinguishes a guest without addresses from an unknown one.
 */
export function addressFields(
  facts: IfaceFacts,
  { now, silentSince }: AddressContext,
): AddressFields {
  const reported = [reportedAddresses(facts, 4), reportedAddresses(facts, 6)];
  const addresses = sortAddresses(
    reported.flatMap((family) => family.addresses),
    listPodAddresses(facts),
  );
  const source = combinedSource(reported);
  if (source === undefined) return {};
  const { ipAddresses = [], addressInfo } = facts.reported ?? {};
  const isUnchanged = addressInfo?.source === source && isEqual(ipAddresses, addresses);
  const [first] = addresses;
  return {
    ...(first === undefined ? {} : { ipAddress: first, ipAddresses: [...addresses] }),
    addressInfo: {
      source,
      since: isUnchanged ? addressInfo.since : now,
      ...(silentSince === undefined || source === "pod" ? {} : { silentSince }),
    },
  };
}
