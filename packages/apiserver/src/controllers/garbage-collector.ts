// SPDX-License-Identifier: Apache-2.0
// Deletes what nobody owns any more, by uid. Source: Kubernetes "Garbage Collection".
import type { Kind } from "../kinds/kind.ts";
import type { KubeObject, OwnerReference } from "../objects/object.ts";
import { type Address, parseAddress, printAddress } from "../objects/object.ts";
import type { Change, StoredFacts, StoredObject } from "../storage/store.ts";
import type { Deps } from "../verbs/call.ts";
import { changeInternally, deleteInternally } from "./internal-call.ts";
import { OwnerIndex } from "./owner-index.ts";
import { WorkQueue } from "./work-queue.ts";

const FOREGROUND = "foregroundDeletion";
const ORPHAN = "orphan";

/** Whether something waits for its dependents to be gone. */
function waitsForDependents(object: KubeObject): boolean {
  return (
    object.metadata.deletionTimestamp !== undefined &&
    (object.metadata.finalizers ?? []).includes(FOREGROUND)
  );
}

function hasWork(object: KubeObject): boolean {
  const { deletionTimestamp, finalizers = [], ownerReferences = [] } = object.metadata;
  const marked = finalizers.includes(FOREGROUND) || finalizers.includes(ORPHAN);
  return ownerReferences.length > 0 || (deletionTimestamp !== undefined && marked);
}

function withoutFinalizer(name: string): (object: KubeObject) => KubeObject {
  return (object) => {
    const { finalizers = [] } = object.metadata;
    object.metadata.finalizers = finalizers.filter((finalizer) => finalizer !== name);
    return object;
  };
}

function withoutOwners(uids: ReadonlySet<string>): (object: KubeObject) => KubeObject {
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

/** An object to work on. */
interface Target {
  readonly kind: Kind;
  readonly address: Address;
}

/** Owners of an object, by what they mean for it. */
interface Owners {
  readonly solid: readonly OwnerReference[];
  readonly gone: readonly OwnerReference[];
  readonly waiting: readonly OwnerReference[];
}

class GarbageCollector {
  readonly #deps: Deps;
  readonly #index: OwnerIndex;
  readonly #queue: WorkQueue;

  constructor(deps: Deps, stop: AbortSignal) {
    this.#deps = deps;
    this.#index = new OwnerIndex(deps.store);
    this.#queue = new WorkQueue({
      name: "garbage-collector",
      clock: deps.clock,
      logger: deps.logger,
      stop,
      work: (key) => this.#collect(parseAddress(key)),
    });
    for (const stored of deps.store.buckets().flatMap((bucket) => deps.store.list({ bucket }))) {
      this.#addWhenDue(stored);
    }
  }

  follow(change: Change): void {
    this.#index.follow(change);
    if (change.type === "DELETED") {
      this.#afterDeletion(change.current);
    } else {
      this.#addWhenDue(change.current);
    }
  }

  /** Dependents lose an owner; owners that wait may go on. */
  #afterDeletion({ uid, owners }: StoredFacts): void {
    const waiting = owners.flatMap((owner) => this.#index.findByUid(owner) ?? []);
    for (const address of [...this.#index.dependentsOf(uid), ...waiting]) {
      this.#queue.add(printAddress(address));
    }
  }

  #addWhenDue(stored: StoredObject): void {
    if (this.#isSettled(stored) || !hasWork(stored.view())) {
      return;
    }
    const object = stored.view();
    const { solid, gone, waiting } = this.#ownersOf(stored.address, object);
    if (stored.deleting || gone.length > 0 || waiting.length > 0 || solid.length === 0) {
      this.#queue.add(printAddress(stored.address));
    }
  }

  /** Whether the facts alone say that there is nothing to do: nearly every object, at no cost. */
  #isSettled({ address, owners, deleting }: StoredObject): boolean {
    return !deleting && owners.every((uid) => this.#findOwner(address, uid)?.deleting === false);
  }

  /** An owner that is there, in the same namespace or in none. */
  #findOwner(dependent: Address, uid: string): StoredObject | undefined {
    const at = this.#index.findByUid(uid);
    const inReach = at !== undefined && ["", dependent.namespace].includes(at.namespace);
    return inReach ? this.#deps.store.find(at) : undefined;
  }

  #ownersOf(address: Address, object: KubeObject): Owners {
    const solid: OwnerReference[] = [];
    const gone: OwnerReference[] = [];
    const waiting: OwnerReference[] = [];
    for (const owner of object.metadata.ownerReferences ?? []) {
      const stored = this.#findOwner(address, owner.uid);
      if (stored === undefined) {
        gone.push(owner);
      } else if (stored.deleting && waitsForDependents(stored.view())) {
        waiting.push(owner);
      } else {
        solid.push(owner);
      }
    }
    return { solid, gone, waiting };
  }

  async #collect(address: Address): Promise<void> {
    const object = this.#deps.store.find(address)?.view();
    const kind = this.#deps.registry.findByBucket(address.bucket);
    if (object === undefined || kind === undefined || !hasWork(object)) {
      return;
    }
    const at = { kind, address };
    if (object.metadata.deletionTimestamp !== undefined) {
      await this.#finish(at, object);
      return;
    }
    await this.#judge(at, object);
  }

  /** An object with owners: kept while one of them is solid. */
  async #judge(at: Target, object: KubeObject): Promise<void> {
    const { solid, gone, waiting } = this.#ownersOf(at.address, object);
    if (solid.length > 0) {
      const dead = new Set([...gone, ...waiting].map(({ uid }) => uid));
      if (dead.size > 0) {
        await changeInternally(this.#deps, at, withoutOwners(dead));
      }
      return;
    }
    const uid = object.metadata.uid ?? "";
    const deepFirst = waiting.length > 0 && this.#index.dependentsOf(uid).length > 0;
    await deleteInternally(this.#deps, at, {
      uid,
      propagationPolicy: deepFirst ? "Foreground" : "Background",
    });
  }

  /** An object that is being deleted and says what shall become of its dependents. */
  async #finish(at: Target, object: KubeObject): Promise<void> {
    const { finalizers = [], uid = "" } = object.metadata;
    if (finalizers.includes(ORPHAN)) {
      for (const address of this.#index.dependentsOf(uid)) {
        const kind = this.#deps.registry.findByBucket(address.bucket);
        if (kind !== undefined) {
          await changeInternally(this.#deps, { kind, address }, withoutOwners(new Set([uid])));
        }
      }
      await changeInternally(this.#deps, at, withoutFinalizer(ORPHAN));
    } else if (finalizers.includes(FOREGROUND)) {
      const dependents = this.#index.dependentsOf(uid);
      for (const address of dependents) {
        this.#queue.add(printAddress(address));
      }
      if (!dependents.some((address) => this.#blocks(address, uid))) {
        await changeInternally(this.#deps, at, withoutFinalizer(FOREGROUND));
      }
    }
  }

  #blocks(address: Address, ownerUid: string): boolean {
    const references = this.#deps.store.find(address)?.view().metadata.ownerReferences ?? [];
    return references.some(
      ({ uid, blockOwnerDeletion }) => uid === ownerUid && blockOwnerDeletion === true,
    );
  }
}

/** Starts the collector; it follows the store until `stop` is aborted. */
export function startGarbageCollector(deps: Deps, stop: AbortSignal): void {
  const collector = new GarbageCollector(deps, stop);
  const unsubscribe = deps.store.subscribe((changes) => {
    for (const change of changes) {
      collector.follow(change);
    }
  });
  stop.addEventListener("abort", unsubscribe);
}
