// SPDX-License-Identifier: Apache-2.0
// Updates one object by the rules that PUT, PATCH, subresources and controllers share.
import { type GroupVersionKind, toWriteOptions } from "../admission/admission.ts";
import { type Cause, modified, notFound } from "../meta/status.ts";
import type { Kind } from "../kinds/kind.ts";
import { validateMeta, validateMetaUpdate } from "../meta/metadata.ts";
import { type Fields, equalJson, asList, valueAt, without } from "../objects/json.ts";
import { type KubeObject, printAddress } from "../objects/object.ts";
import type { StoredObject } from "../storage/store.ts";
import { type Call, toResourceRef, toAddress, isDryRun, queueIfHeavy } from "./call.ts";
import { claimUniqueValues } from "./claim.ts";
import type { VerbDeps } from "./deps.ts";
import { checkLimits, refuseInvalid, toObject } from "./decode.ts";
import { readObject, toStorage } from "./conversion.ts";

const MAX_ATTEMPTS = 1000;

export type ChangedPart = "main" | "status" | "all";

export interface ObjectChange {
  readonly part: ChangedPart;
  /** Returns the new object. May change `current`. May throw a StatusError. */
  readonly edit: (current: KubeObject) => KubeObject;
  /** Representation that admission receives instead of the object; unset to pass the object. */
  readonly body?: ChangeBody;
}

/** Representation of an object, such as a Scale. */
export interface ChangeBody {
  readonly kind: GroupVersionKind;
  readonly toBody: (object: KubeObject) => KubeObject;
  readonly applyBody: (object: KubeObject, body: KubeObject) => KubeObject;
}

function restoreServerMeta(next: KubeObject, current: KubeObject): void {
  const { metadata } = next;
  const serverKeys = [
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "namespace",
    "resourceVersion",
  ] as const;
  for (const key of serverKeys) {
    const value = current.metadata[key];
    if (value === undefined) {
      Reflect.deleteProperty(metadata, key);
    } else {
      Object.assign(metadata, { [key]: value });
    }
  }
  next.apiVersion = current.apiVersion;
  next.kind = current.kind;
}

function copyField(next: KubeObject, source: KubeObject, field: string): void {
  if (source[field] === undefined) {
    Reflect.deleteProperty(next, field);
  } else {
    next[field] = source[field];
  }
}

function withNextStatus(kind: Kind, next: KubeObject, current: KubeObject): KubeObject {
  const result: KubeObject = { ...current };
  copyField(result, next, "status");
  if (kind.strategy.statusWritesMetadata) {
    result.metadata = next.metadata;
  }
  return result;
}

function restrictToPart(
  kind: Kind,
  part: ChangedPart,
  objects: { next: KubeObject; current: KubeObject },
): KubeObject {
  const { next, current } = objects;
  if (part === "status") {
    return withNextStatus(kind, next, current);
  }
  if (part === "main" && kind.strategy.hasStatus) {
    copyField(next, current, "status");
  }
  return next;
}

function generationFields(kind: Kind, object: KubeObject): Fields {
  const status = kind.strategy.hasStatus ? ["status"] : [];
  return without(object, "metadata", "apiVersion", ...status);
}

function updateGeneration(kind: Kind, next: KubeObject, current: KubeObject): void {
  if (
    kind.strategy.hasGeneration &&
    !equalJson(generationFields(kind, next), generationFields(kind, current))
  ) {
    next.metadata.generation = (current.metadata.generation ?? 0) + 1;
  }
}

/** Returns only causes that the stored object does not have, so that new validation rules do not block unrelated changes. */
function newCauses(kind: Kind, next: KubeObject, current: KubeObject): readonly Cause[] {
  const causes = kind.strategy.validate?.(next) ?? [];
  if (causes.length === 0) {
    return causes;
  }
  const printCause = ({ field = "", message }: Cause): string => `${field}: ${message}`;
  const storedCauses = new Set((kind.strategy.validate?.(current) ?? []).map(printCause));
  return causes.filter((cause) => !storedCauses.has(printCause(cause)));
}

/** Validates a change. Skips validateUpdate if `part` is `all`, so that a Binding, for example, can set the immutable spec.nodeName. */
function validateChange(
  kind: Kind,
  part: ChangedPart,
  objects: { next: KubeObject; current: KubeObject },
): void {
  const { next, current } = objects;
  refuseInvalid(kind, current.metadata.name, [
    ...validateMeta(kind, next),
    ...validateMetaUpdate(next, current),
    ...newCauses(kind, next, current),
    ...(part === "all" ? [] : (kind.strategy.validateUpdate?.(next, current) ?? [])),
  ]);
}

/** Returns whether an object that is being deleted may be removed now. */
function isReleased(object: KubeObject): boolean {
  const { metadata } = object;
  return (
    metadata.deletionTimestamp !== undefined &&
    (metadata.deletionGracePeriodSeconds ?? 0) === 0 &&
    (metadata.finalizers ?? []).length === 0 &&
    asList(valueAt(object, "spec", "finalizers")).length === 0
  );
}

function prepare(
  call: Call,
  change: ObjectChange,
  objects: { next: KubeObject; current: KubeObject },
): KubeObject {
  const { kind } = call;
  const { current } = objects;
  restoreServerMeta(objects.next, current);
  const next = restrictToPart(kind, change.part, objects);
  kind.strategy.applyDefaults?.(next);
  if (change.part === "main") {
    kind.strategy.prepareUpdate?.(next, current);
  }
  return next;
}

/** Decodes an object that a webhook changed, and restores fields that clients cannot change. */
function decodeMutated(
  call: Call,
  change: ObjectChange,
  objects: { next: KubeObject; current: KubeObject },
): KubeObject {
  return prepare(call, change, {
    next: toObject(call.kind, objects.next),
    current: objects.current,
  });
}

async function admit(
  call: Call,
  deps: VerbDeps,
  update: { change: ObjectChange; current: KubeObject; next: KubeObject },
): Promise<KubeObject> {
  const { change, current } = update;
  const { body } = change;
  const toBody = body?.toBody ?? ((object: KubeObject) => object);
  const request = {
    kind: call.kind,
    ...(body === undefined ? {} : { bodyKind: body.kind }),
    subresource: call.subresource,
    operation: "UPDATE",
    namespace: call.namespace,
    name: current.metadata.name,
    oldObject: toBody(current),
    options: toWriteOptions("UpdateOptions", call.query),
    user: call.user,
    dryRun: isDryRun(call.query),
    warnings: call.warnings,
  } as const;
  const mutatedObject = await deps.admission.mutate(
    { ...request, object: toBody(update.next) },
    (changedObject) =>
      body === undefined
        ? decodeMutated(call, change, { next: changedObject, current })
        : changedObject,
  );
  const next = body === undefined ? mutatedObject : body.applyBody(update.next, mutatedObject);
  updateGeneration(call.kind, next, current);
  validateChange(call.kind, change.part, { next, current });
  await deps.admission.validate({ ...request, object: toBody(next) });
  return next;
}

/** Writes the object, or removes it if its deletion is complete. Returns undefined after a conflict. */
function commit(
  call: Call,
  deps: VerbDeps,
  update: { stored: StoredObject; next: KubeObject; part: ChangedPart },
): Promise<KubeObject | undefined> {
  const address = toAddress(call);
  return deps.store.write((transaction) => {
    if (transaction.find(address)?.revision !== update.stored.revision) {
      return undefined;
    }
    const { next } = update;
    const current = update.stored.view();
    claimUniqueValues({ kind: call.kind, address, object: next, current }, transaction, deps);
    const { kind } = call;
    if (update.part === "main") {
      const write = { kind, address, object: toStorage(kind, next), current: update.stored };
      deps.resourceQuotas.check(transaction, write);
    }
    if (isDryRun(call.query)) {
      return next;
    }
    if (isReleased(next)) {
      // The DELETED event contains the stored state, without the change that completed the deletion.
      transaction.remove(address, update.stored.copy());
      return next;
    }
    const writtenObject = transaction.put(address, toStorage(call.kind, next));
    next.metadata.resourceVersion = writtenObject.metadata.resourceVersion ?? "";
    return next;
  });
}

/** Compares objects without managedFields. Source: Kubernetes fieldmanager, ignoreManagedFieldsTimestamps. */
function isUnchanged(next: KubeObject, current: KubeObject): boolean {
  const toComparable = ({ metadata, ...otherFields }: KubeObject): Fields => ({
    ...otherFields,
    metadata: without({ ...metadata }, "managedFields"),
  });
  return equalJson(toComparable(next), toComparable(current));
}

async function tryChange(
  call: Call,
  deps: VerbDeps,
  change: ObjectChange,
): Promise<KubeObject | undefined> {
  const stored = deps.store.find(toAddress(call));
  if (stored === undefined) {
    throw notFound(toResourceRef(call.kind), call.name);
  }
  const length = Math.max(stored.text.length, call.body.text.length);
  await queueIfHeavy(call, deps, length);
  const current = readObject(call.kind, stored);
  const editedObject = change.edit(readObject(call.kind, stored));
  if (change.part === "main") checkLimits(call, editedObject, current);
  await queueIfHeavy(call, deps, length);
  const preparedObject = prepare(call, change, { next: editedObject, current });
  const next = await admit(call, deps, { change, current, next: preparedObject });
  await queueIfHeavy(call, deps, length);
  return isUnchanged(next, current) && !isReleased(next)
    ? current
    : commit(call, deps, { stored, next, part: change.part });
}

async function retryChange(call: Call, deps: VerbDeps, change: ObjectChange): Promise<KubeObject> {
  for (let count = 0; count < MAX_ATTEMPTS; count += 1) {
    const changedObject = await tryChange(call, deps, change);
    if (changedObject !== undefined) {
      return changedObject;
    }
  }
  throw modified(toResourceRef(call.kind), call.name);
}

/** Changes an object. After a conflict, runs `edit` on the latest version. @throws StatusError 404, 409 or 422 */
export async function changeObject(
  call: Call,
  deps: VerbDeps,
  change: ObjectChange,
): Promise<KubeObject> {
  const changedObject = await tryChange(call, deps, change);
  if (changedObject !== undefined) {
    return changedObject;
  }
  // Writers of the same object run sequentially after a conflict. In parallel, most writers would conflict again.
  const key = printAddress(toAddress(call));
  return deps.mutex.runExclusive(key, () => retryChange(call, deps, change));
}
