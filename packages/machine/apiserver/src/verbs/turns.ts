// SPDX-License-Identifier: Apache-2.0
// Writers of one object that have lost a race go on one after the other: else many of them do little but lose again.
import { type Address, printAddress } from "../objects/object.ts";
import type { Store } from "../storage/store.ts";

/** The last turn that is taken for each object, by printed address. */
const LAST = new WeakMap<Pick<Store, "find">, Map<string, Promise<undefined>>>();

/** Does `work` when everyone before has done theirs for the same object. */
export async function inTurn<T>(
  store: Pick<Store, "find">,
  address: Address,
  work: () => Promise<T>,
): Promise<T> {
  const turns = LAST.get(store) ?? new Map<string, Promise<undefined>>();
  LAST.set(store, turns);
  const key = printAddress(address);
  const before = turns.get(key);
  const { promise, resolve } = Promise.withResolvers<undefined>();
  turns.set(key, promise);
  await before;
  try {
    return await work();
  } finally {
    resolve(undefined);
    if (turns.get(key) === promise) {
      turns.delete(key);
    }
  }
}
