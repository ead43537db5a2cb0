// SPDX-License-Identifier: Apache-2.0
// Which NICs of a guest have other addresses than before its start?
import { keptIpsOf, soundAddresses, type Attachment, type NetworkSelection } from "@patchbay/api";
import { findCondition, type Conditions, type NewCondition } from "../status/conditions.ts";

/** A condition of the VMI, and so of its VM; there is none while all have what they had. */
export const ADDRESS_CHANGED = "AddressChanged";

/** Of the condition, and of the event that tells of it. */
const REASON = "AddressNotKept";

function sayOf(
  { name, networkName = "", podInterfaceName, ips }: Attachment,
  elements: readonly NetworkSelection[],
): readonly string[] {
  const element = elements.find((each) => each.interface === podInterfaceName);
  const has = soundAddresses(ips);
  const lost = keptIpsOf(element).filter((ip) => !has.includes(ip));
  if (lost.length === 0) return [];
  const now = has.length === 0 ? "no address" : has.join(", ");
  return [`interface ${name} now has ${now} on ${networkName}; it had ${lost.join(", ")} before`];
}

/** What is told where a network did not give again what a NIC had. */
export function addressesCondition(
  attachments: readonly Attachment[],
  elements: readonly NetworkSelection[],
): readonly NewCondition[] {
  const changes = attachments
    .filter(({ state }) => state === "Attached")
    .flatMap((attachment) => sayOf(attachment, elements));
  if (changes.length === 0) return [];
  const message = `${changes.join("; ")}; events of the launcher pod say why`;
  return [{ type: ADDRESS_CHANGED, status: "True", reason: REASON, message }];
}

/** The change that is told now and was not told before, for an event. */
export function newAddressChange(
  before: Conditions | undefined,
  now: Conditions | undefined,
): { readonly reason: string; readonly message: string } | undefined {
  const [old, told] = [before, now].map((list) => findCondition(list, ADDRESS_CHANGED)?.message);
  return told === undefined || told === old ? undefined : { reason: REASON, message: told };
}
