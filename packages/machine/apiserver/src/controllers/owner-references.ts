// SPDX-License-Identifier: Apache-2.0
// Owner references: classification, edits, and an index by uid. Source: Kubernetes garbage collector classifyReferences.
import { type Kind, bucketOf } from "../kinds/kind.ts";
import type { Registry } from "../kinds/registry.ts";
import {
  type Address,
  type KubeObject,
  type OwnerReference,
  printAddress,
} from "../objects/object.ts";
import type { Change, Store, StoredObject } from "../storage/store.ts";

/** The finalizer of an owner that goes after its dependents. */
export const FOREGROUND = "foregroundDeletion";

/** An object to work on. */
export interface Target {
  readonly kind: Kind;
  readonly address: Address;
}

/** Owners of an object, by what they mean for it. */
interface Owners {
  /** There, and to stay for now. */
  readonly solid: readonly OwnerReference[];
  readonly gone: readonly OwnerReference[];
  /** Being deleted, after their dependents. */
  readonly waiting: readonly OwnerReference[];
  /** Nobody can say: their kind is not served, or cannot own this object. Nothing is done while there is one. */
  readonly unclear: readonly OwnerReference[];
}

/** Who can say what is there. */
export interface OwnerSources {
  readonly store: Pick<Store, "find">;
  readonly registry: Pick<Registry, "findByKind">;
  /** Whether an owner is known to be gone, though its kind may be gone too. */
  readonly isGone: (uid: string) => boolean;
}

/** Whether something waits for its dependents to be gone. */
export function waitsForDependents(object: KubeObject): boolean {
  return (
    object.metadata.deletionTimestamp !== undefined &&
    (object.metadata.finalizers ?? []).includes(FOREGROUND)
  );
}

function meaningOf(
  reference: OwnerReference,
  dependent: Address,
  sources: OwnerSources,
): keyof Owners {
  const { store, registry, isGone } = sources;
  const kind = registry.findByKind(reference.apiVersion, reference.kind);
  if (kind === undefined) {
    return isGone(reference.uid) ? "gone" : "unclear";
  }
  if (kind.namespaced && dependent.namespace === "") {
    return "unclear";
  }
  const namespace = kind.namespaced ? dependent.namespace : "";
  const owner = store.find({ bucket: bucketOf(kind), namespace, name: reference.name });
  if (owner?.uid !== reference.uid) {
    return "gone";
  }
  return owner.deleting && waitsForDependents(owner.view()) ? "waiting" : "solid";
}

/** Sorts the owners of the object at an address. They are known by kind, name and uid, in the dependent's namespace or in none. */
export function ownersOf(address: Address, object: KubeObject, sources: OwnerSources): Owners {
  const owners: Record<keyof Owners, OwnerReference[]> = {
    solid: [],
    gone: [],
    waiting: [],
    unclear: [],
  };
  for (const reference of object.metadata.ownerReferences ?? []) {
    owners[meaningOf(reference, address, sources)].push(reference);
  }
  return owners;
}

/** Changes an object: a finalizer less. */
export function withoutFinalizer(name: string): (object: KubeObject) => KubeObject {
  return (object) => {
    const { finalizers = [] } = object.metadata;
    object.metadata.finalizers = finalizers.filter((finalizer) => finalizer !== name);
    return object;
  };
}

/** Changes an object: some owners less. */
export function withoutOwners(uids: ReadonlySet<string>): (object: KubeObject) => KubeObject {
  return (object) => {
    const left = (object.metadata.ownerReferences ?? []).filter(({ uid }) => !uids.has(uid));
    if (left.length === 0) {
      delete object.metadata.ownerReferences;
    } else {
      object.metadata.ownerReferences = left;
    }
    return object;
  };
}

/** Changes an object: its owners need not wait for it. */
export function withoutBlocking(object: KubeObject): KubeObject {
  for (const reference of object.metadata.ownerReferences ?? []) {
    if (reference.blockOwnerDeletion === true) {
      reference.blockOwnerDeletion = false;
    }
  }
  return object;
}

/** Uids of the owners that have to wait for an object. */
export function blockedBy(object: KubeObject | undefined): ReadonlySet<string> {
  const references = object?.metadata.ownerReferences ?? [];
  return new Set(
    references.filter((owner) => owner.blockOwnerDeletion === true).map(({ uid }) => uid),
  );
}

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
