// SPDX-License-Identifier: Apache-2.0
// Who owns what, by uid: kept current by the changes of the store.
import { type Address, printAddress } from "../../objects/object.ts";
import type { Change, Store, StoredObject } from "../../storage/store.ts";

/** Who names whom as owner, by uid: also owners that are not there. */
export class OwnerIndex {
  readonly #addresses = new Map<string, Address>();
  /** By uid of the owner; values by printed address. */
  readonly #dependents = new Map<string, Map<string, Address>>();

  constructor(store: Store) {
    for (const bucket of store.buckets()) {
      for (const stored of store.list({ bucket })) {
        this.#add(stored);
      }
    }
  }

  /** Where the object with a uid lives. */
  findByUid(uid: string): Address | undefined {
    return this.#addresses.get(uid);
  }

  /** Objects that name `uid` as an owner, sorted. */
  dependentsOf(uid: string): readonly Address[] {
    const entries = [...(this.#dependents.get(uid) ?? [])];
    return entries.sort(([left], [right]) => (left < right ? -1 : 1)).map(([, address]) => address);
  }

  follow(change: Change): void {
    const { current, previous } = change;
    if (previous !== undefined) {
      this.#remove(previous);
    }
    if (change.type === "DELETED") {
      this.#addresses.delete(current.uid);
    } else {
      this.#add(current);
    }
  }

  #add({ address, uid, owners }: StoredObject): void {
    this.#addresses.set(uid, address);
    for (const owner of owners) {
      const dependents = this.#dependents.get(owner) ?? new Map<string, Address>();
      dependents.set(printAddress(address), address);
      this.#dependents.set(owner, dependents);
    }
  }

  #remove({ address, owners }: StoredObject): void {
    for (const owner of owners) {
      const dependents = this.#dependents.get(owner);
      dependents?.delete(printAddress(address));
      if (dependents?.size === 0) {
        this.#dependents.delete(owner);
      }
    }
  }
}
