// SPDX-License-Identifier: Apache-2.0
// Deletes what nobody owns any more, by uid. Source: Kubernetes "Garbage Collection".
import type { Kind } from "../kinds/kind.ts";
import type { KubeObject, OwnerReference } from "../objects/object.ts";
import { type Address, parseAddress, printAddress } from "../objects/object.ts";
import type { Change } from "../storage/store.ts";
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
      this.#addWhenDue(stored.address, stored.view());
    }
  }

  follow(change: Change): void {
    this.#index.follow(change);
    const object = change.current.view();
    if (change.type === "DELETED") {
      this.#afterDeletion(object);
    } else {
      this.#addWhenDue(change.current.address, object);
    }
  }

  /** Dependents lose an owner; owners that wait may go on. */
  #afterDeletion(object: KubeObject): void {
    const owners = (object.metadata.ownerReferences ?? []).flatMap(
      ({ uid }) => this.#index.findByUid(uid) ?? [],
    );
    for (const address of [...this.#index.dependentsOf(object.metadata.uid ?? ""), ...owners]) {
      this.#queue.add(printAddress(address));
    }
  }

  #addWhenDue(address: Address, object: KubeObject): void {
    if (!hasWork(object)) {
      return;
    }
    const { solid, gone, waiting } = this.#ownersOf(address, object);
    const marked = object.metadata.deletionTimestamp !== undefined;
    if (marked || gone.length > 0 || waiting.length > 0 || solid.length === 0) {
      this.#queue.add(printAddress(address));
    }
  }

  #ownersOf(address: Address, object: KubeObject): Owners {
    const solid: OwnerReference[] = [];
    const gone: OwnerReference[] = [];
    const waiting: OwnerReference[] = [];
    for (const owner of object.metadata.ownerReferences ?? []) {
      const at = this.#index.findByUid(owner.uid);
      const inReach =
        at !== undefined && (at.namespace === "" || at.namespace === address.namespace);
      const stored = inReach ? this.#deps.store.find(at) : undefined;
      if (stored === undefined) {
        gone.push(owner);
      } else if (waitsForDependents(stored.view())) {
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
