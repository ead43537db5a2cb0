// SPDX-License-Identifier: Apache-2.0
// Garbage collection by owner references. Source: Kubernetes "Garbage Collection".
import { DEFINITIONS_BUCKET } from "../custom/definition.ts";
import { EVENT } from "../kinds/cluster/event.ts";
import { apiVersionOf } from "../kinds/kind.ts";
import {
  type Address,
  type KubeObject,
  type OwnerReference,
  parseAddress,
  printAddress,
} from "../objects/object.ts";
import { rfc3339 } from "../objects/time.ts";
import type { Change, StoredMetadata, StoredObject } from "../storage/store.ts";
import type { VerbDeps } from "../verbs/deps.ts";
import { changeInternally, deleteInternally, ensureObject } from "./internal-writes.ts";
import {
  FOREGROUND_FINALIZER,
  OwnerIndex,
  type OwnerSources,
  type Target,
  blockedOwnerUids,
  classifyOwners,
  waitsForDependents,
  withoutBlocking,
  withoutFinalizer,
  withoutOwners,
} from "./owner-references.ts";
import { WorkQueue } from "./work-queue.ts";

const COMPONENT = "garbage-collector-controller";

/** Writes an Event about an owner in another namespace. Source: Kubernetes, OwnerRefInvalidNamespace. */
async function recordForeignOwner(
  deps: VerbDeps,
  target: Target,
  object: KubeObject,
  owner: OwnerReference,
): Promise<void> {
  const { kind, address } = target;
  const identity = `[${owner.apiVersion}/${owner.kind}, namespace: ${address.namespace}, name: ${owner.name}, uid: ${owner.uid}]`;
  const now = rfc3339(deps.clock.now());
  const namespace = address.namespace === "" ? "default" : address.namespace;
  const { uid } = object.metadata;
  const involvedObject = {
    kind: kind.kind,
    ...(address.namespace === "" ? {} : { namespace: address.namespace }),
    name: address.name,
    uid,
    apiVersion: apiVersionOf(kind),
  };
  const key = { kind: EVENT, namespace, name: `${address.name}.${owner.uid.slice(0, 16)}` };
  await deps.store.write((transaction) => {
    ensureObject(transaction, key, deps, (event) => {
      Object.assign(event, {
        involvedObject,
        type: "Warning",
        reason: "OwnerRefInvalidNamespace",
        message: `ownerRef ${identity} does not exist in namespace "${address.namespace}"`,
        source: { component: COMPONENT },
        reportingComponent: COMPONENT,
        reportingInstance: "",
        firstTimestamp: event["firstTimestamp"] ?? now,
        lastTimestamp: now,
        count: Number(event["count"] ?? 0) + 1,
      });
    });
  });
}

const ORPHAN_FINALIZER = "orphan";
/** Maximum number of stored UIDs of deleted owners. A stored UID proves a deletion even if the definition of the kind is gone. */
const DELETED_OWNERS_MAX = 1000;
const IGNORED_BUCKETS: ReadonlySet<string> = new Set(["/events", "events.k8s.io/events"]);

function equalLists(left: readonly string[], right: readonly string[]): boolean {
  return left.length === right.length && left.every((uid, index) => uid === right[index]);
}

function findPropagationPolicy({ metadata }: KubeObject): string {
  const { finalizers = [] } = metadata;
  if (finalizers.includes(ORPHAN_FINALIZER)) {
    return "Orphan";
  }
  return finalizers.includes(FOREGROUND_FINALIZER) ? "Foreground" : "Background";
}

class GarbageCollector {
  readonly #deps: VerbDeps;
  readonly #index: OwnerIndex;
  readonly #queue: WorkQueue;
  readonly #sources: OwnerSources;
  readonly #deletedOwners = new Set<string>();
  /** Printed addresses of objects with unresolved owners. The objects are queued again when a CustomResourceDefinition changes. */
  readonly #unresolved = new Set<string>();

  constructor(deps: VerbDeps, stop: AbortSignal) {
    this.#deps = deps;
    this.#index = new OwnerIndex(deps.store);
    this.#sources = {
      store: deps.store,
      registry: deps.registry,
      isDeleted: (uid) => this.#deletedOwners.has(uid),
    };
    this.#queue = new WorkQueue({
      name: "garbage-collector",
      clock: deps.clock,
      logger: deps.logger,
      stop,
      work: (key) => this.#collect(parseAddress(key)),
    });
    for (const stored of deps.store.buckets().flatMap((bucket) => deps.store.list({ bucket }))) {
      // Passes the object also as its previous version. Its owners then count as unchanged, and are not checked if they exist.
      this.#addIfNeeded(stored, stored);
    }
  }

  handle(change: Change): void {
    const { current, previous } = change;
    this.#index.apply(change);
    if (change.type === "DELETED") {
      this.#afterDeletion(current);
    } else {
      this.#addIfNeeded(current, previous);
      this.#addUnblockedOwners(current, previous);
    }
    if (current.address.bucket === DEFINITIONS_BUCKET) {
      this.#retryUnresolved();
    }
  }

  #add(address: Address): void {
    this.#queue.add(printAddress(address));
  }

  #afterDeletion({ uid, owners }: StoredMetadata): void {
    const dependents = this.#index.listDependents(uid);
    if (dependents.length > 0) {
      this.#rememberDeleted(uid);
    }
    for (const address of dependents) {
      this.#add(address);
    }
    this.#addOwners(owners);
  }

  #addOwners(uids: Iterable<string>): void {
    for (const uid of uids) {
      const address = this.#index.findByUid(uid);
      if (address !== undefined && this.#deps.store.find(address)?.isDeleting === true) {
        this.#add(address);
      }
    }
  }

  #rememberDeleted(uid: string): void {
    this.#deletedOwners.add(uid);
    const [oldest] = this.#deletedOwners;
    if (this.#deletedOwners.size > DELETED_OWNERS_MAX && oldest !== undefined) {
      this.#deletedOwners.delete(oldest);
    }
  }

  #retryUnresolved(): void {
    for (const key of this.#unresolved) {
      this.#queue.add(key);
    }
    this.#unresolved.clear();
  }

  #addIfNeeded(stored: StoredObject, previous: StoredObject | undefined): void {
    const { address, owners, isDeleting } = stored;
    const hasLiveOwners = owners.every((uid) => this.#isLiveOwner(address, uid));
    const hasSameOwners =
      owners.length === 0 || (previous !== undefined && equalLists(owners, previous.owners));
    if (isDeleting) {
      this.#addDeleting(stored);
    } else if (!hasLiveOwners || !hasSameOwners) {
      this.#add(address);
    }
  }

  #addDeleting(stored: StoredObject): void {
    const object = stored.view();
    const { finalizers = [] } = object.metadata;
    if (finalizers.includes(ORPHAN_FINALIZER) || finalizers.includes(FOREGROUND_FINALIZER)) {
      this.#add(stored.address);
    }
  }

  /** Returns whether the owner exists, is not being deleted, and is cluster-scoped or in the dependent's namespace. */
  #isLiveOwner(dependent: Address, uid: string): boolean {
    const address = this.#index.findByUid(uid);
    return (
      address !== undefined &&
      ["", dependent.namespace].includes(address.namespace) &&
      this.#deps.store.find(address)?.isDeleting === false
    );
  }

  #addUnblockedOwners(current: StoredObject, previous: StoredObject | undefined): void {
    if (previous !== undefined && previous.owners.length > 0) {
      const blockedUids = blockedOwnerUids(current.view());
      this.#addOwners(
        [...blockedOwnerUids(previous.view())].filter((uid) => !blockedUids.has(uid)),
      );
    }
  }

  async #collect(address: Address): Promise<void> {
    const object = this.#deps.store.find(address)?.view();
    const kind = this.#deps.registry.findByBucket(address.bucket);
    if (object === undefined || kind === undefined || IGNORED_BUCKETS.has(address.bucket)) {
      return;
    }
    if (object.metadata.deletionTimestamp !== undefined) {
      await this.#finishDeletion({ kind, address }, object);
    } else if ((object.metadata.ownerReferences ?? []).length > 0) {
      await this.#collectDependent({ kind, address }, object);
    }
  }

  async #collectDependent(target: Target, object: KubeObject): Promise<void> {
    const { live, deleted, waiting, unresolved } = classifyOwners(
      target.address,
      object,
      this.#sources,
    );
    await this.#recordForeignOwners(target, object);
    if (unresolved.length > 0) {
      this.#unresolved.add(printAddress(target.address));
      return;
    }
    if (live.length > 0) {
      const removableUids = new Set([...deleted, ...waiting].map(({ uid }) => uid));
      if (removableUids.size > 0) {
        await changeInternally(this.#deps, target, withoutOwners(removableUids));
      }
      return;
    }
    const { uid = "" } = object.metadata;
    const dependents = this.#index.listDependents(uid);
    if (waiting.length === 0 || dependents.length === 0) {
      await deleteInternally(this.#deps, target, {
        uid,
        propagationPolicy: findPropagationPolicy(object),
      });
      return;
    }
    if (dependents.some((address) => this.#isWaiting(address))) {
      // Clears blockOwnerDeletion, because objects that own each other would otherwise block each other's deletion forever.
      await changeInternally(this.#deps, target, withoutBlocking);
    }
    await deleteInternally(this.#deps, target, { uid, propagationPolicy: "Foreground" });
  }

  async #recordForeignOwners(target: Target, object: KubeObject): Promise<void> {
    for (const owner of object.metadata.ownerReferences ?? []) {
      const { namespace = "" } = this.#index.findByUid(owner.uid) ?? {};
      if (namespace !== "" && namespace !== target.address.namespace) {
        await recordForeignOwner(this.#deps, target, object, owner);
      }
    }
  }

  async #finishDeletion(target: Target, object: KubeObject): Promise<void> {
    const { finalizers = [], uid = "" } = object.metadata;
    const dependents = this.#index.listDependents(uid);
    if (finalizers.includes(ORPHAN_FINALIZER)) {
      for (const address of dependents) {
        const kind = this.#deps.registry.findByBucket(address.bucket);
        if (kind !== undefined) {
          await changeInternally(this.#deps, { kind, address }, withoutOwners(new Set([uid])));
        }
      }
      await changeInternally(this.#deps, target, withoutFinalizer(ORPHAN_FINALIZER));
    } else if (finalizers.includes(FOREGROUND_FINALIZER)) {
      for (const address of dependents.filter((dependent) => !this.#isDeleting(dependent))) {
        this.#add(address);
      }
      if (!dependents.some((address) => this.#isBlocking(address, uid))) {
        await changeInternally(this.#deps, target, withoutFinalizer(FOREGROUND_FINALIZER));
      }
    }
  }

  #isDeleting(address: Address): boolean {
    return this.#deps.store.find(address)?.isDeleting === true;
  }

  #isWaiting(address: Address): boolean {
    const stored = this.#deps.store.find(address);
    return stored?.isDeleting === true && waitsForDependents(stored.view());
  }

  #isBlocking(address: Address, ownerUid: string): boolean {
    return blockedOwnerUids(this.#deps.store.find(address)?.view()).has(ownerUid);
  }
}

export function startGarbageCollector(deps: VerbDeps, stop: AbortSignal): void {
  const collector = new GarbageCollector(deps, stop);
  const unsubscribe = deps.store.subscribe((changes) => {
    for (const change of changes) {
      collector.handle(change);
    }
  });
  stop.addEventListener("abort", unsubscribe);
}
