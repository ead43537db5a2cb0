// SPDX-License-Identifier: Apache-2.0
// Classifies owner references, and indexes objects by owner. Source: Kubernetes garbage collector classifyReferences.
import { type Kind, bucketOf } from "../kinds/kind.ts";
import type { Registry } from "../kinds/registry.ts";
import {
  type Address,
  type KubeObject,
  type OwnerReference,
  printAddress,
} from "../objects/object.ts";
import type { Change, Store, StoredObject } from "../storage/store.ts";

/** Finalizer of an owner that is deleted after its dependents. */
export const FOREGROUND_FINALIZER = "foregroundDeletion";

export interface Target {
  readonly kind: Kind;
  readonly address: Address;
}

interface Owners {
  /** Owners that exist and do not wait for their dependents. */
  readonly live: readonly OwnerReference[];
  readonly deleted: readonly OwnerReference[];
  /** Owners that are being deleted in the foreground and wait for their dependents. */
  readonly waiting: readonly OwnerReference[];
  /** Owners whose kind is unknown or cannot own the object. They prevent the deletion of the object. */
  readonly unresolved: readonly OwnerReference[];
}

export interface OwnerSources {
  readonly store: Pick<Store, "find">;
  readonly registry: Pick<Registry, "findByKind">;
  /** Returns whether an owner of an unknown kind was deleted. */
  readonly isDeleted: (uid: string) => boolean;
}

export function waitsForDependents(object: KubeObject): boolean {
  return (
    object.metadata.deletionTimestamp !== undefined &&
    (object.metadata.finalizers ?? []).includes(FOREGROUND_FINALIZER)
  );
}

function classify(
  reference: OwnerReference,
  dependent: Address,
  sources: OwnerSources,
): keyof Owners {
  const { store, registry, isDeleted } = sources;
  const kind = registry.findByKind(reference.apiVersion, reference.kind);
  if (kind === undefined) {
    return isDeleted(reference.uid) ? "deleted" : "unresolved";
  }
  if (kind.namespaced && dependent.namespace === "") {
    return "unresolved";
  }
  const namespace = kind.namespaced ? dependent.namespace : "";
  const owner = store.find({ bucket: bucketOf(kind), namespace, name: reference.name });
  if (owner?.uid !== reference.uid) {
    return "deleted";
  }
  return owner.isDeleting && waitsForDependents(owner.view()) ? "waiting" : "live";
}

export function classifyOwners(
  address: Address,
  object: KubeObject,
  sources: OwnerSources,
): Owners {
  const owners: Record<keyof Owners, OwnerReference[]> = {
    live: [],
    deleted: [],
    waiting: [],
    unresolved: [],
  };
  for (const reference of object.metadata.ownerReferences ?? []) {
    owners[classify(reference, address, sources)].push(reference);
  }
  return owners;
}

export function withoutFinalizer(name: string): (object: KubeObject) => KubeObject {
  return (object) => {
    const { finalizers = [] } = object.metadata;
    object.metadata.finalizers = finalizers.filter((finalizer) => finalizer !== name);
    return object;
  };
}

export function withoutOwners(uids: ReadonlySet<string>): (object: KubeObject) => KubeObject {
  return (object) => {
    const remainingReferences = (object.metadata.ownerReferences ?? []).filter(
      ({ uid }) => !uids.has(uid),
    );
    if (remainingReferences.length === 0) {
      delete object.metadata.ownerReferences;
    } else {
      object.metadata.ownerReferences = remainingReferences;
    }
    return object;
  };
}

export function withoutBlocking(object: KubeObject): KubeObject {
  for (const reference of object.metadata.ownerReferences ?? []) {
    if (reference.blockOwnerDeletion === true) {
      reference.blockOwnerDeletion = false;
    }
  }
  return object;
}

export function blockedOwnerUids(object: KubeObject | undefined): ReadonlySet<string> {
  const references = object?.metadata.ownerReferences ?? [];
  return new Set(
    references.filter((owner) => owner.blockOwnerDeletion === true).map(({ uid }) => uid),
  );
}

/** Index of objects and their dependents. Includes references to owners that do not exist. */
export class OwnerIndex {
  readonly #addresses = new Map<string, Address>();
  /** Addresses of dependents. The outer key is the owner's uid; the inner key is the dependent's printed address. */
  readonly #dependents = new Map<string, Map<string, Address>>();

  constructor(store: Store) {
    for (const bucket of store.buckets()) {
      for (const stored of store.list({ bucket })) {
        this.#add(stored);
      }
    }
  }

  findByUid(uid: string): Address | undefined {
    return this.#addresses.get(uid);
  }

  listDependents(uid: string): readonly Address[] {
    const entries = [...(this.#dependents.get(uid) ?? [])];
    return entries.sort(([left], [right]) => (left < right ? -1 : 1)).map(([, address]) => address);
  }

  apply(change: Change): void {
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
