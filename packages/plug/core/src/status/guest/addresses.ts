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
import { moduleOf } from "../../iface/links/wiring.ts";

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

function podAddresses({ attachment }: IfaceFacts, family: 4 | 6): readonly string[] {
  const addresses = (attachment?.ips ?? [])
    .flatMap((text) => parseIp(text) ?? [])
    .filter(({ version }) => version === family)
    .map(printAddress);
  return [...new Set(addresses)];
}

/**
 * One family: what the guest has, and what CNI gave it until that is known. Behind the pod's addresses a guest can be
 * reached by none of its own; where the pod has none, it is told what the guest has.
 */
function toldOf(facts: IfaceFacts, family: 4 | 6): Told {
  const pod = podAddresses(facts, family);
  const guest = facts.device?.guest?.[FAMILIES[family]];
  if (moduleOf(facts).addressesOf === "pod") {
    if (pod.length > 0) return { addresses: pod, by: "pod" };
    const reachable = (guest ?? []).filter((address) => !isLinkLocal(address));
    return { addresses: reachable, by: reachable.length > 0 ? "guest-agent" : undefined };
  }
  if (guest !== undefined) return { addresses: guest, by: "guest-agent" };
  return { addresses: pod, by: pod.length > 0 ? "pod" : undefined };
}

function sourceOf(told: readonly Told[]): AddressSource | undefined {
  const tellers = new Set(told.map(({ by }) => by));
  if (!tellers.has("guest-agent")) return tellers.has("pod") ? "pod" : undefined;
  return tellers.has("pod") ? "pod, guest-agent" : "guest-agent";
}

/**
 * The addresses, IPv4 first, and where they come from. They are told since when the same were first told by the same; of
 * a guest without any that is told too, so that nobody takes it for one that has not been asked.
 */
export function addressFields(
  facts: IfaceFacts,
  { now, silentSince }: AddressMoment,
): AddressFields {
  const told = [toldOf(facts, 4), toldOf(facts, 6)];
  const addresses = told.flatMap((family) => family.addresses);
  const source = sourceOf(told);
  if (source === undefined) return {};
  const { ipAddresses = [], addressInfo } = facts.reported ?? {};
  const isOld = addressInfo?.source === source && isEqual(ipAddresses, addresses);
  const [first] = addresses;
  return {
    ...(first === undefined ? {} : { ipAddress: first, ipAddresses: addresses }),
    addressInfo: {
      source,
      since: isOld ? addressInfo.since : now,
      ...(silentSince === undefined || source === "pod" ? {} : { silentSince }),
    },
  };
}
