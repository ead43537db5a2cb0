// SPDX-License-Identifier: Apache-2.0
// What do the owners that an object names mean for it? Source: Kubernetes garbage collector classifyReferences.
import { type Kind, bucketOf } from "../../kinds/kind.ts";
import type { Registry } from "../../kinds/registry.ts";
import type { Address, KubeObject, OwnerReference } from "../../objects/object.ts";
import type { Store } from "../../storage/store.ts";

/** The finalizer of an owner that goes after its dependents. */
export const FOREGROUND = "foregroundDeletion";

/** An object to work on. */
export interface Target {
  readonly kind: Kind;
  readonly address: Address;
}

/** Owners of an object, by what they mean for it. */
export interface Owners {
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
