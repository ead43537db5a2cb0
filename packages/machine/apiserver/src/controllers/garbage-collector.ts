// SPDX-License-Identifier: Apache-2.0
// Tells people why an object with an owner in another namespace goes or stays. Source: Kubernetes garbage collector OwnerRefInvalidNamespace.
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
import type { Change, StoredFacts, StoredObject } from "../storage/store.ts";
import type { VerbDeps } from "../verbs/deps.ts";
import { changeInternally, deleteInternally, keepObject } from "./internal-writes.ts";
import {
  FOREGROUND,
  OwnerIndex,
  type OwnerSources,
  type Target,
  blockedBy,
  ownersOf,
  waitsForDependents,
  withoutBlocking,
  withoutFinalizer,
  withoutOwners,
} from "./owner-references.ts";
import { WorkQueue } from "./work-queue.ts";

const COMPONENT = "garbage-collector-controller";

/** Records that an object names an owner that lives elsewhere. */
async function reportForeignOwner(
  deps: VerbDeps,
  at: Target,
  given: { readonly object: KubeObject; readonly owner: OwnerReference },
): Promise<void> {
  const { kind, address } = at;
  const { object, owner } = given;
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
  const kept = { kind: EVENT, namespace, name: `${address.name}.${owner.uid.slice(0, 16)}` };
  await deps.store.write((transaction) => {
    keepObject(transaction, { kept, deps }, (event) => {
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

const ORPHAN = "orphan";
/** Owners that are remembered to be gone, because their dependents may be judged when their kind is gone too. */
const GONE_MAX = 1000;
/** Records of what happened are never collected. */
const IGNORED: ReadonlySet<string> = new Set(["/events", "events.k8s.io/events"]);

function isSame(left: readonly string[], right: readonly string[]): boolean {
  return left.length === right.length && left.every((uid, index) => uid === right[index]);
}

/** How an object goes that nobody owns: as its own finalizers say. */
function policyOf({ metadata }: KubeObject): string {
  const { finalizers = [] } = metadata;
  if (finalizers.includes(ORPHAN)) {
    return "Orphan";
  }
  return finalizers.includes(FOREGROUND) ? "Foreground" : "Background";
}

class GarbageCollector {
  readonly #deps: VerbDeps;
  readonly #index: OwnerIndex;
  readonly #queue: WorkQueue;
  readonly #sources: OwnerSources;
  /** Oldest first. */
  readonly #gone = new Set<string>();
  /** Printed addresses of objects with owners of kinds that are not served. */
  readonly #unclear = new Set<string>();

  constructor(deps: VerbDeps, stop: AbortSignal) {
    this.#deps = deps;
    this.#index = new OwnerIndex(deps.store);
    this.#sources = {
      store: deps.store,
      registry: deps.registry,
      isGone: (uid) => this.#gone.has(uid),
    };
    this.#queue = new WorkQueue({
      name: "garbage-collector",
      clock: deps.clock,
      logger: deps.logger,
      stop,
      work: (key) => this.#collect(parseAddress(key)),
    });
    for (const stored of deps.store.buckets().flatMap((bucket) => deps.store.list({ bucket }))) {
      // What has its owners was judged when it was written: nothing is read of it at a start.
      this.#addWhenDue(stored, stored);
    }
  }

  follow(change: Change): void {
    const { current, previous } = change;
    this.#index.follow(change);
    if (change.type === "DELETED") {
      this.#afterDeletion(current);
    } else {
      this.#addWhenDue(current, previous);
      this.#addReleased(current, previous);
    }
    if (current.address.bucket === DEFINITIONS_BUCKET) {
      this.#retryUnclear();
    }
  }

  #add(address: Address): void {
    this.#queue.add(printAddress(address));
  }

  /** Dependents lose an owner; owners that wait may go on. */
  #afterDeletion({ uid, owners }: StoredFacts): void {
    const dependents = this.#index.dependentsOf(uid);
    if (dependents.length > 0) {
      this.#remember(uid);
    }
    for (const address of dependents) {
      this.#add(address);
    }
    this.#addOwners(owners);
  }

  #addOwners(uids: Iterable<string>): void {
    for (const uid of uids) {
      const address = this.#index.findByUid(uid);
      if (address !== undefined && this.#deps.store.find(address)?.deleting === true) {
        this.#add(address);
      }
    }
  }

  #remember(uid: string): void {
    this.#gone.add(uid);
    const [oldest] = this.#gone;
    if (this.#gone.size > GONE_MAX && oldest !== undefined) {
      this.#gone.delete(oldest);
    }
  }

  #retryUnclear(): void {
    for (const key of this.#unclear) {
      this.#queue.add(key);
    }
    this.#unclear.clear();
  }

  /** Nearly every object has nothing to be done about, which its facts tell at no cost. */
  #addWhenDue(stored: StoredObject, previous: StoredObject | undefined): void {
    const { address, owners, deleting } = stored;
    const settled = owners.every((uid) => this.#isNear(address, uid));
    const known =
      owners.length === 0 || (previous !== undefined && isSame(owners, previous.owners));
    if (deleting) {
      this.#addDeleting(stored);
    } else if (!settled || !known) {
      this.#add(address);
    }
  }

  /** Something that goes with its dependents wakes them. */
  #addDeleting(stored: StoredObject): void {
    const object = stored.view();
    const { finalizers = [] } = object.metadata;
    if (finalizers.includes(ORPHAN) || finalizers.includes(FOREGROUND)) {
      this.#add(stored.address);
    }
  }

  /** Whether an owner is there to stay, as far as its uid tells. */
  #isNear(dependent: Address, uid: string): boolean {
    const at = this.#index.findByUid(uid);
    return (
      at !== undefined &&
      ["", dependent.namespace].includes(at.namespace) &&
      this.#deps.store.find(at)?.deleting === false
    );
  }

  /** Owners that need not wait for this dependent any more. */
  #addReleased(current: StoredObject, previous: StoredObject | undefined): void {
    if (previous !== undefined && previous.owners.length > 0) {
      const held = blockedBy(current.view());
      this.#addOwners([...blockedBy(previous.view())].filter((uid) => !held.has(uid)));
    }
  }

  async #collect(address: Address): Promise<void> {
    const object = this.#deps.store.find(address)?.view();
    const kind = this.#deps.registry.findByBucket(address.bucket);
    if (object === undefined || kind === undefined || IGNORED.has(address.bucket)) {
      return;
    }
    if (object.metadata.deletionTimestamp !== undefined) {
      await this.#finish({ kind, address }, object);
    } else if ((object.metadata.ownerReferences ?? []).length > 0) {
      await this.#judge({ kind, address }, object);
    }
  }

  /** An object with owners: kept while one of them is solid. */
  async #judge(at: Target, object: KubeObject): Promise<void> {
    const { solid, gone, waiting, unclear } = ownersOf(at.address, object, this.#sources);
    await this.#reportForeign(at, object);
    if (unclear.length > 0) {
      this.#unclear.add(printAddress(at.address));
      return;
    }
    if (solid.length > 0) {
      const dead = new Set([...gone, ...waiting].map(({ uid }) => uid));
      if (dead.size > 0) {
        await changeInternally(this.#deps, at, withoutOwners(dead));
      }
      return;
    }
    const { uid = "" } = object.metadata;
    const dependents = this.#index.dependentsOf(uid);
    if (waiting.length === 0 || dependents.length === 0) {
      await deleteInternally(this.#deps, at, { uid, propagationPolicy: policyOf(object) });
      return;
    }
    if (dependents.some((address) => this.#waits(address))) {
      // Owners of each other would wait for each other.
      await changeInternally(this.#deps, at, withoutBlocking);
    }
    await deleteInternally(this.#deps, at, { uid, propagationPolicy: "Foreground" });
  }

  async #reportForeign(at: Target, object: KubeObject): Promise<void> {
    for (const owner of object.metadata.ownerReferences ?? []) {
      const { namespace = "" } = this.#index.findByUid(owner.uid) ?? {};
      if (namespace !== "" && namespace !== at.address.namespace) {
        await reportForeignOwner(this.#deps, at, { object, owner });
      }
    }
  }

  /** An object that is being deleted and says what shall become of its dependents. */
  async #finish(at: Target, object: KubeObject): Promise<void> {
    const { finalizers = [], uid = "" } = object.metadata;
    const dependents = this.#index.dependentsOf(uid);
    if (finalizers.includes(ORPHAN)) {
      for (const address of dependents) {
        const kind = this.#deps.registry.findByBucket(address.bucket);
        if (kind !== undefined) {
          await changeInternally(this.#deps, { kind, address }, withoutOwners(new Set([uid])));
        }
      }
      await changeInternally(this.#deps, at, withoutFinalizer(ORPHAN));
    } else if (finalizers.includes(FOREGROUND)) {
      for (const address of dependents.filter((dependent) => !this.#isDeleting(dependent))) {
        this.#add(address);
      }
      if (!dependents.some((address) => this.#blocks(address, uid))) {
        await changeInternally(this.#deps, at, withoutFinalizer(FOREGROUND));
      }
    }
  }

  #isDeleting(address: Address): boolean {
    return this.#deps.store.find(address)?.deleting === true;
  }

  #waits(address: Address): boolean {
    const stored = this.#deps.store.find(address);
    return stored?.deleting === true && waitsForDependents(stored.view());
  }

  #blocks(address: Address, ownerUid: string): boolean {
    return blockedBy(this.#deps.store.find(address)?.view()).has(ownerUid);
  }
}

/** Starts the collector; it follows the store until `stop` is aborted. */
export function startGarbageCollector(deps: VerbDeps, stop: AbortSignal): void {
  const collector = new GarbageCollector(deps, stop);
  const unsubscribe = deps.store.subscribe((changes) => {
    for (const change of changes) {
      collector.follow(change);
    }
  });
  stop.addEventListener("abort", unsubscribe);
}
