// SPDX-License-Identifier: Apache-2.0
// DELETE of one object or a collection. Source: Kubernetes registry/rest BeforeDelete, generic Store.Delete.
import { StatusError, conflict, forbidden, notFound, successBody } from "../meta/status.ts";
import { type Kind, bucketOf } from "../kinds/kind.ts";
import { NAMESPACE } from "../kinds/cluster/namespace.ts";
import { equalJson, asList, valueAt } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import { parseTime, rfc3339 } from "../objects/time.ts";
import type { StoredObject, Transaction } from "../storage/store.ts";
import { type Call, type Reply, toResourceRef, toAddress, queueIfHeavy } from "./call.ts";
import type { VerbDeps } from "./deps.ts";
import {
  type DeleteOptions,
  printDeleteOptions,
  parseDeleteOptions,
} from "./options/delete-options.ts";
import { readObject, toStorage } from "./conversion.ts";
import { listObjects } from "./list.ts";

const MAX_ATTEMPTS = 1000;
/** Number of simultaneous deletions of a collection. Each holds a parsed object. */
const COLLECTION_WORKERS = 16;
const FOREGROUND_FINALIZER = "foregroundDeletion";
const ORPHAN_FINALIZER = "orphan";
/** Namespaces that cannot be deleted. Source: Kubernetes NamespaceLifecycle admission. */
const PROTECTED_NAMESPACES: ReadonlySet<string> = new Set([
  "default",
  "kube-public",
  "kube-system",
]);

function checkPreconditions(kind: Kind, object: KubeObject, options: DeleteOptions): void {
  const { uid = "", resourceVersion = "", name } = object.metadata;
  const ref = { ...toResourceRef(kind), resource: kind.kind };
  if (options.uid !== "" && options.uid !== uid) {
    const message = `the UID in the precondition (${options.uid}) does not match the UID in record (${uid}). The object might have been deleted and then recreated`;
    throw conflict(ref, name, message);
  }
  if (options.resourceVersion !== "" && options.resourceVersion !== resourceVersion) {
    const message = `the ResourceVersion in the precondition (${options.resourceVersion}) does not match the ResourceVersion in record (${resourceVersion}). The object might have been modified`;
    throw conflict(ref, name, message);
  }
}

/** Returns the finalizers for the requested propagation, or undefined to retain the object's finalizers. */
function propagationFinalizers(kind: Kind, options: DeleteOptions): readonly string[] | undefined {
  const { propagationPolicy, orphanDependents } = options;
  if (kind.resource === "events" || (propagationPolicy === "" && orphanDependents === undefined)) {
    return undefined;
  }
  if (orphanDependents === true || propagationPolicy === "Orphan") {
    return [ORPHAN_FINALIZER];
  }
  return propagationPolicy === "Foreground" ? [FOREGROUND_FINALIZER] : [];
}

function applyPropagation(kind: Kind, object: KubeObject, options: DeleteOptions): void {
  const requestedFinalizers = propagationFinalizers(kind, options);
  if (requestedFinalizers === undefined) {
    return;
  }
  const { finalizers = [] } = object.metadata;
  const otherFinalizers = finalizers.filter(
    (name) => name !== FOREGROUND_FINALIZER && name !== ORPHAN_FINALIZER,
  );
  const newFinalizers = [...otherFinalizers, ...requestedFinalizers];
  if (newFinalizers.length === 0) {
    delete object.metadata.finalizers;
  } else if (!equalJson(finalizers.toSorted(), newFinalizers.toSorted())) {
    object.metadata.finalizers = newFinalizers;
  }
}

function incrementGeneration({ metadata }: KubeObject): void {
  if (metadata.generation !== undefined) {
    metadata.generation += 1;
  }
}

/** Moves the end of the grace period to `grace` seconds after the first deletion request. */
function shortenGrace({ metadata }: KubeObject, grace: number): void {
  const savedSeconds = (metadata.deletionGracePeriodSeconds ?? 0) - grace;
  const newTimestampMs = parseTime(metadata.deletionTimestamp ?? "") - savedSeconds * 1000;
  metadata.deletionTimestamp = rfc3339(newTimestampMs);
  metadata.deletionGracePeriodSeconds = grace;
}

/** Returns `begun` after starting or shortening the grace period, `pending` if it is unchanged, `none` if it is unsupported or 0. */
function applyGrace(
  kind: Kind,
  object: KubeObject,
  request: { readonly requested: number | undefined; readonly nowMs: number },
): "none" | "pending" | "begun" {
  const { graceSeconds } = kind.strategy;
  const { metadata } = object;
  if (graceSeconds === undefined) {
    return "none";
  }
  if (metadata.deletionTimestamp === undefined) {
    const grace = graceSeconds(object, request.requested) ?? 0;
    metadata.deletionTimestamp = rfc3339(request.nowMs + grace * 1000);
    metadata.deletionGracePeriodSeconds = grace;
    incrementGeneration(object);
    return "begun";
  }
  const current = metadata.deletionGracePeriodSeconds ?? 0;
  if (current === 0) {
    return "none";
  }
  if (request.requested === undefined || request.requested >= current) {
    return "pending";
  }
  shortenGrace(object, request.requested);
  return "begun";
}

function markForDeletion(kind: Kind, object: KubeObject, nowMs: number): void {
  const { metadata } = object;
  if (metadata.deletionTimestamp === undefined) {
    incrementGeneration(object);
    metadata.deletionTimestamp = rfc3339(nowMs);
  } else if (parseTime(metadata.deletionTimestamp) > nowMs) {
    metadata.deletionTimestamp = rfc3339(nowMs);
  }
  metadata.deletionGracePeriodSeconds = 0;
  kind.strategy.beginDeletion?.(object);
}

function hasFinalizers(object: KubeObject): boolean {
  return (
    (object.metadata.finalizers ?? []).length > 0 ||
    asList(valueAt(object, "spec", "finalizers")).length > 0
  );
}

interface DeletionResult {
  readonly object: KubeObject;
  readonly isRemoved: boolean;
}

interface DeletionStep {
  readonly kind: Kind;
  readonly options: DeleteOptions;
  readonly stored: StoredObject;
  readonly nowMs: number;
}

/**
 * Plans a deletion. If the kind has grace periods, the object is written with a deletion timestamp before it is removed, even if its grace
 * period is 0, so that watches report the timestamp.
 */
function planDeletion(step: DeletionStep): DeletionResult & { readonly isChanged: boolean } {
  const { kind, options, stored, nowMs } = step;
  const object = readObject(kind, stored);
  const grace = applyGrace(kind, object, { requested: options.graceSeconds, nowMs });
  if (grace === "pending") {
    return { object, isRemoved: false, isChanged: false };
  }
  applyPropagation(kind, object, options);
  const isProtected = hasFinalizers(object);
  if (isProtected && grace === "none") {
    markForDeletion(kind, object, nowMs);
  }
  const isInGracePeriod = (object.metadata.deletionGracePeriodSeconds ?? 0) > 0;
  const isChanged = !equalJson(object, readObject(kind, stored));
  return { object, isRemoved: !isProtected && !isInGracePeriod, isChanged };
}

function applyDeletion(transaction: Transaction, step: DeletionStep): DeletionResult {
  const { kind, options, stored } = step;
  const { object, isRemoved, isChanged } = planDeletion(step);
  const adoptRevision = (writtenObject: KubeObject) => {
    object.metadata.resourceVersion = writtenObject.metadata.resourceVersion ?? "";
  };
  if (!options.dryRun && isChanged) {
    adoptRevision(transaction.put(stored.address, toStorage(kind, object)));
  }
  if (!options.dryRun && isRemoved) {
    adoptRevision(transaction.remove(stored.address, toStorage(kind, object)));
  }
  return { object, isRemoved };
}

/** Deletes an object, or marks it if finalizers or a grace period delay removal. @throws StatusError 404 or 409 */
export async function deleteOne(
  call: Call,
  deps: VerbDeps,
  options: DeleteOptions,
): Promise<DeletionResult> {
  const { kind } = call;
  const address = toAddress(call);
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt += 1) {
    const stored = deps.store.find(address);
    if (stored === undefined) {
      throw notFound(toResourceRef(kind), call.name);
    }
    await queueIfHeavy(call, deps, stored.text.length);
    const oldObject = readObject(kind, stored);
    checkPreconditions(kind, oldObject, options);
    await deps.admission.admitDeletion({
      kind,
      subresource: "",
      operation: "DELETE",
      namespace: call.namespace,
      name: call.name,
      object: undefined,
      oldObject,
      options: printDeleteOptions(options),
      user: call.user,
      dryRun: options.dryRun,
      warnings: call.warnings,
    });
    const nowMs = deps.clock.now();
    const result = await deps.store.write((transaction) =>
      transaction.find(address)?.revision === stored.revision
        ? applyDeletion(transaction, { kind, options, stored, nowMs })
        : undefined,
    );
    if (result !== undefined) {
      return result;
    }
  }
  throw conflict(toResourceRef(kind), call.name, "the object changes too often to be deleted");
}

function checkNotProtected({ kind, name }: Call): void {
  if (bucketOf(kind) === bucketOf(NAMESPACE) && PROTECTED_NAMESPACES.has(name)) {
    throw forbidden(toResourceRef(kind), name, "this namespace may not be deleted");
  }
}

export async function deleteObject(call: Call, deps: VerbDeps): Promise<Reply> {
  const options = parseDeleteOptions(call);
  checkNotProtected(call);
  const { object, isRemoved } = await deleteOne(call, deps, options);
  if (!isRemoved || call.kind.strategy.returnsDeleted === true) {
    const isAccepted = !isRemoved && options.orphanDependents === false;
    return { type: "object", code: isAccepted ? 202 : 200, object };
  }
  const { name, uid = "" } = object.metadata;
  const { group, resource } = call.kind;
  const details = { name, ...(group === "" ? {} : { group }), kind: resource, uid };
  return { type: "fields", code: 200, fields: successBody(details) };
}

async function deleteStored(
  call: Call,
  deps: VerbDeps,
  deletion: { readonly stored: StoredObject; readonly options: DeleteOptions },
): Promise<void> {
  const { namespace, name } = deletion.stored.address;
  try {
    await deleteOne({ ...call, namespace, name }, deps, deletion.options);
  } catch (error) {
    // A 404 means that another client has deleted the object.
    if (!(error instanceof StatusError && error.code === 404)) {
      throw error;
    }
  }
}

/** Deletes the objects that a list with the same query returns. Returns the list. */
export async function deleteCollection(call: Call, deps: VerbDeps): Promise<Reply> {
  const options = parseDeleteOptions(call);
  const reply = await listObjects(call, deps);
  const items = reply.type === "list" ? reply.items : [];
  const remaining = items.values();
  const work = async (): Promise<void> => {
    for (const stored of remaining) await deleteStored(call, deps, { stored, options });
  };
  await Promise.all(Array.from({ length: COLLECTION_WORKERS }, work));
  return reply;
}
