// SPDX-License-Identifier: Apache-2.0
// What does a NIC lack of what it had before a guest used it?
import { normalizeMac, parseIp } from "@patchbay/api";
import type { Link, LentNic } from "@patchbay/core/ports";
import type { LinkChange } from "./link-change.ts";
import type { Pod } from "./wiring/wirer.ts";

function isSame(one: string, other: string): boolean {
  const [first, second] = [one, other].map(parseIp);
  return (
    first?.version === second?.version &&
    first?.value === second?.value &&
    first?.length === second?.length
  );
}

/** What is no address is left out. A MAC is changed while the link is down, since not every kind allows it else. */
export function planGiveBack(link: Link, { name, mac, addresses }: LentNic): readonly LinkChange[] {
  const isOther = mac !== undefined && normalizeMac(mac) !== normalizeMac(link.mac);
  const missing = addresses.filter(
    (address) =>
      parseIp(address) !== undefined && !link.addresses.some((has) => isSame(address, has)),
  );
  return [
    ...(isOther ? [{ op: "setLink", link: name, settings: { up: false, mac } } as const] : []),
    ...missing.map((address) => ({ op: "addAddress", link: name, address, flags: [] }) as const),
  ];
}

/**
 * Gives it what it lacks; a NIC that is not there lacks nothing. What is refused keeps nothing else from being given.
 * @throws AppError with PODNET_FAILED, the first refusal
 */
export async function giveBack(pod: Pod, lent: LentNic): Promise<void> {
  const link = (await pod.listLinks()).find(({ name }) => name === lent.name);
  if (link === undefined) return;
  const refusals: unknown[] = [];
  for (const change of planGiveBack(link, lent)) {
    await pod.change([change]).catch((error: unknown) => refusals.push(error));
  }
  if (refusals.length > 0) throw refusals[0];
}
