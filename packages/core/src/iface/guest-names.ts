// SPDX-License-Identifier: Apache-2.0
// What the guest calls its NICs, and when it is worth asking.

/** A NIC as the guest's agent tells it: the guest's word, which is hostile. */
export interface GuestNic {
  readonly name: string;
  readonly mac: string;
}

/** Longest name that is shown. Linux has 15 characters, Windows up to 255. Source: linux/if.h IFNAMSIZ; MIB_IF_ROW2. */
const NAME_MAX = 255;

function isPrintable(name: string): boolean {
  return name !== "" && name.length <= NAME_MAX && !/\p{Cc}|\p{Cf}/u.test(name);
}

/**
 * Names by MAC, lower case. Of several with one MAC the first counts: the agent tells them in the order in which they
 * were made, the NIC before the bridge, the bond or the VLAN on it. What cannot be shown is left out.
 */
export function guestNamesByMac(nics: readonly GuestNic[]): ReadonlyMap<string, string> {
  const names = new Map<string, string>();
  for (const { name, mac } of nics) {
    const key = mac.toLowerCase();
    if (key !== "" && isPrintable(name) && !names.has(key)) names.set(key, name);
  }
  return names;
}

/**
 * How long after a change the guest is asked, milliseconds. libvirt tells no event when a guest names a NIC: it has it
 * after 80 ms (measured, Linux 6.1), udev may give it another name within seconds, a slow guest takes longer.
 */
const ASK_GUEST_AFTER_MS: readonly number[] = [500, 3_000, 15_000, 60_000];

/** Milliseconds until the guest is to be asked again, 0 for now; undefined: not before something changes. */
export function nextAskInMs(changedAgoMs: number, asks: number): number | undefined {
  const dueMs = ASK_GUEST_AFTER_MS[asks];
  return dueMs === undefined ? undefined : Math.max(0, dueMs - changedAgoMs);
}
