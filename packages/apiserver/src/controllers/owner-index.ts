// SPDX-License-Identifier: Apache-2.0
// Who owns what, by uid: kept current by the changes of the store.
import type { Address, KubeObject } from "../objects/object.ts";
import { printAddress } from "../objects/object.ts";
import type { Change, Store } from "../storage/store.ts";

/** Owners and dependents. */
export class OwnerIndex {
  readonly #addresses = new Map<string, Address>();
  /** By uid of the owner; values by printed address. */
  readonly #dependents = new Map<string, Map<string, Address>>();

  constructor(store: Store) {
    for (const bucket of store.buckets()) {
      for (const stored of store.list({ bucket })) {
        this.#add(stored.address, stored.view());
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
      this.#remove(previous.address, previous.view());
    }
    if (change.type === "DELETED") {
      this.#addresses.delete(current.view().metadata.uid ?? "");
    } else {
      this.#add(current.address, current.view());
    }
  }

  #add(address: Address, object: KubeObject): void {
    this.#addresses.set(object.metadata.uid ?? "", address);
    for (const { uid } of object.metadata.ownerReferences ?? []) {
      const dependents = this.#dependents.get(uid) ?? new Map<string, Address>();
      dependents.set(printAddress(address), address);
      this.#dependents.set(uid, dependents);
    }
  }

  #remove(address: Address, object: KubeObject): void {
    for (const { uid } of object.metadata.ownerReferences ?? []) {
      const dependents = this.#dependents.get(uid);
      dependents?.delete(printAddress(address));
      if (dependents?.size === 0) {
        this.#dependents.delete(uid);
      }
    }
  }
}
