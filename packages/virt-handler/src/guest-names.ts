// SPDX-License-Identifier: Apache-2.0
// What guests call their NICs, as they last said, and when they are asked again. Lost at a restart, after which they are
// asked anew; until then the names that were reported stay.
import { nextAskInMs } from "@patchbay/core";
import type { Clock } from "@patchbay/ports";

/** What the guests' agents said, by the uid of the VMI. */
export interface GuestNames {
  /** Names by MAC; empty when the guest has not been asked. */
  namesOf(uid: string): ReadonlyMap<string, string>;
  /**
   * Milliseconds until the guest is to be asked, 0 for now; undefined: not before something changes. `listeners` says who
   * would answer, and for what; another text than at the last look is a change.
   */
  askInMs(uid: string, listeners: string): number | undefined;
  /** The guest was asked; undefined when it did not answer, which changes no name. True when there are other names. */
  note(uid: string, names: ReadonlyMap<string, string> | undefined): boolean;
  /** The VMI is gone, and with it what its guest said. */
  forget(uid: string): void;
}

interface Guest {
  readonly listeners: string;
  readonly changedMs: number;
  readonly asks: number;
}

const NO_NAMES: ReadonlyMap<string, string> = new Map();

function isSame(left: ReadonlyMap<string, string>, right: ReadonlyMap<string, string>): boolean {
  return left.size === right.size && [...left].every(([mac, name]) => right.get(mac) === name);
}

/** No guest was asked yet; the clock tells when one is to be. */
export function createGuestNames(clock: Clock): GuestNames {
  const guests = new Map<string, Guest>();
  const names = new Map<string, ReadonlyMap<string, string>>();
  return {
    namesOf: (uid) => names.get(uid) ?? NO_NAMES,
    askInMs(uid, listeners): number | undefined {
      const nowMs = clock.monotonicMs();
      const known = guests.get(uid);
      const guest =
        known?.listeners === listeners ? known : { listeners, changedMs: nowMs, asks: 0 };
      guests.set(uid, guest);
      return listeners === "" ? undefined : nextAskInMs(nowMs - guest.changedMs, guest.asks);
    },
    note(uid, told): boolean {
      const guest = guests.get(uid);
      if (guest !== undefined) guests.set(uid, { ...guest, asks: guest.asks + 1 });
      if (told === undefined || isSame(told, names.get(uid) ?? NO_NAMES)) return false;
      names.set(uid, told);
      return true;
    },
    forget(uid): void {
      guests.delete(uid);
      names.delete(uid);
    },
  };
}
