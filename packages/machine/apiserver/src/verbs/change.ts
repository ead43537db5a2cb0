// SPDX-License-Identifier: Apache-2.0
// One change of one object, whoever asks for it: the rules that update, patch and the subresources share.
import { type GroupVersionKind, writeOptions } from "../admission/admission.ts";
import { type Cause, invalid, modified, notFound } from "../meta/status.ts";
import type { Kind } from "../kinds/kind.ts";
import { validateMeta, validateMetaUpdate } from "../meta/validate-meta.ts";
import { type Fields, equalJson, listOf, valueAt, without } from "../objects/json.ts";
import { type KubeObject, printAddress } from "../objects/object.ts";
import type { StoredObject } from "../storage/store.ts";
import { type Call, aboutOf, addressOf, isDryRun, queueIfHeavy } from "./call.ts";
import { takeClaims } from "./claim.ts";
import type { VerbDeps } from "./deps.ts";
import { toObject } from "./decode.ts";
import { readObject, toStorage } from "./readable.ts";

/** After so many lost races a change without a resourceVersion is refused too. */
const ATTEMPTS = 1000;

/** What part of the object a change may touch. */
export type Part = "main" | "status" | "all";

/** A change to make. */
export interface Change {
  readonly part: Part;
  /** Makes the new object of the current one, which it may change. Throws StatusErrors. */
  readonly edit: (current: KubeObject) => KubeObject;
  /** What admission is shown in place of the object. */
  readonly body?: ChangeBody;
}

/** An object that stands for another one, as a Scale does. */
export interface ChangeBody {
  readonly kind: GroupVersionKind;
  readonly of: (object: KubeObject) => KubeObject;
  /** The object with what the body says; changes `object`. */
  readonly into: (object: KubeObject, body: KubeObject) => KubeObject;
}

/** Keeps what clients can never change. */
function keepServerMeta(next: KubeObject, current: KubeObject): void {
  const { metadata } = next;
  const fixed = [
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "namespace",
    "resourceVersion",
  ] as const;
  for (const key of fixed) {
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

function takeField(next: KubeObject, from: KubeObject, field: string): void {
  if (from[field] === undefined) {
    Reflect.deleteProperty(next, field);
  } else {
    next[field] = from[field];
  }
}

/** What a status write may change: status, and for built-in kinds metadata. */
function statusOnly(kind: Kind, next: KubeObject, current: KubeObject): KubeObject {
  const result: KubeObject = { ...current };
  takeField(result, next, "status");
  if (kind.strategy.statusTakesMetadata) {
    result.metadata = next.metadata;
  }
  return result;
}

function isolate(
  kind: Kind,
  part: Part,
  pair: { next: KubeObject; current: KubeObject },
): KubeObject {
  const { next, current } = pair;
  if (part === "status") {
    return statusOnly(kind, next, current);
  }
  if (part === "main" && kind.strategy.hasStatus) {
    takeField(next, current, "status");
  }
  return next;
}

/** What generation counts: everything but metadata, and status where it has a subresource. */
function specificationOf(kind: Kind, object: KubeObject): Fields {
  const status = kind.strategy.hasStatus ? ["status"] : [];
  return without(object, "metadata", "apiVersion", ...status);
}

function countGeneration(kind: Kind, next: KubeObject, current: KubeObject): void {
  if (
    kind.strategy.hasGeneration &&
    !equalJson(specificationOf(kind, next), specificationOf(kind, current))
  ) {
    next.metadata.generation = (current.metadata.generation ?? 0) + 1;
  }
}

/** Rules that were added later judge what changes: a cause that what is stored has too is none of this change's. */
function newCauses(kind: Kind, next: KubeObject, current: KubeObject): readonly Cause[] {
  const causes = kind.strategy.validate?.(next) ?? [];
  if (causes.length === 0) {
    return causes;
  }
  const printed = ({ field = "", message }: Cause): string => `${field}: ${message}`;
  const stored = new Set((kind.strategy.validate?.(current) ?? []).map(printed));
  return causes.filter((cause) => !stored.has(printed(cause)));
}

/** What the server itself changes (`all`) is held to the form only. */
function validateChange(
  kind: Kind,
  part: Part,
  pair: { next: KubeObject; current: KubeObject },
): void {
  const { next, current } = pair;
  const causes = [
    ...validateMeta(kind, next),
    ...validateMetaUpdate(next, current),
    ...newCauses(kind, next, current),
    ...(part === "all" ? [] : (kind.strategy.validateUpdate?.(next, current) ?? [])),
  ];
  if (causes.length > 0) {
    throw invalid(aboutOf(kind), current.metadata.name, causes);
  }
}

/** Whether nothing holds an object any more that is being deleted. */
function isReleased(object: KubeObject): boolean {
  const { metadata } = object;
  return (
    metadata.deletionTimestamp !== undefined &&
    (metadata.deletionGracePeriodSeconds ?? 0) === 0 &&
    (metadata.finalizers ?? []).length === 0 &&
    listOf(valueAt(object, "spec", "finalizers")).length === 0
  );
}

function prepare(
  call: Call,
  change: Change,
  pair: { next: KubeObject; current: KubeObject },
): KubeObject {
  const { kind } = call;
  const { current } = pair;
  keepServerMeta(pair.next, current);
  const next = isolate(kind, change.part, pair);
  kind.strategy.applyDefaults?.(next);
  if (change.part === "main") {
    kind.strategy.prepareUpdate?.(next, current);
  }
  return next;
}

/** Decodes what a webhook made; what clients can never change stays. */
function recomplete(
  call: Call,
  change: Change,
  pair: { next: KubeObject; current: KubeObject },
): KubeObject {
  return prepare(call, change, { next: toObject(call.kind, pair.next), current: pair.current });
}

async function admit(
  call: Call,
  deps: VerbDeps,
  step: { change: Change; current: KubeObject; next: KubeObject },
): Promise<KubeObject> {
  const { change, current } = step;
  const { body } = change;
  const shown = body?.of ?? ((object: KubeObject) => object);
  const question = {
    kind: call.kind,
    ...(body === undefined ? {} : { bodyKind: body.kind }),
    subresource: call.subresource,
    operation: "UPDATE",
    namespace: call.namespace,
    name: current.metadata.name,
    oldObject: shown(current),
    options: writeOptions("UpdateOptions", call.query),
    user: call.user,
    dryRun: isDryRun(call.query),
    warnings: call.warnings,
  } as const;
  const mutated = await deps.admission.mutate(
    { ...question, object: shown(step.next) },
    (changed) =>
      body === undefined ? recomplete(call, change, { next: changed, current }) : changed,
  );
  const next = body === undefined ? mutated : body.into(step.next, mutated);
  countGeneration(call.kind, next, current);
  validateChange(call.kind, change.part, { next, current });
  await deps.admission.validate({ ...question, object: shown(next) });
  return next;
}

/** The written object; undefined where someone else was faster. */
function commit(
  call: Call,
  deps: VerbDeps,
  step: { stored: StoredObject; next: KubeObject },
): Promise<KubeObject | undefined> {
  const address = addressOf(call);
  return deps.store.write((transaction) => {
    if (transaction.find(address)?.revision !== step.stored.revision) {
      return undefined;
    }
    const { next } = step;
    const current = step.stored.view();
    takeClaims({ kind: call.kind, address, object: next, current }, transaction, deps);
    if (isDryRun(call.query)) {
      return next;
    }
    if (isReleased(next)) {
      // The last state of an object is the last that was stored: what releases it is not.
      transaction.remove(address, step.stored.copy());
      return next;
    }
    const written = transaction.put(address, toStorage(call.kind, next));
    next.metadata.resourceVersion = written.metadata.resourceVersion ?? "";
    return next;
  });
}

/** Whether nothing but the record of who wrote what differs. Source: Kubernetes fieldmanager, ignoreManagedFieldsTimestamps. */
function isUnchanged(next: KubeObject, current: KubeObject): boolean {
  const told = ({ metadata, ...rest }: KubeObject): Fields => ({
    ...rest,
    metadata: without({ ...metadata }, "managedFields"),
  });
  return equalJson(told(next), told(current));
}

/** The changed object; undefined where someone else was faster. Throws StatusErrors. */
async function attempt(
  call: Call,
  deps: VerbDeps,
  change: Change,
): Promise<KubeObject | undefined> {
  const stored = deps.store.find(addressOf(call));
  if (stored === undefined) {
    throw notFound(aboutOf(call.kind), call.name);
  }
  const length = Math.max(stored.text.length, call.body.text.length);
  await queueIfHeavy(call, deps, length);
  const current = readObject(call.kind, stored);
  const edited = change.edit(readObject(call.kind, stored));
  await queueIfHeavy(call, deps, length);
  const prepared = prepare(call, change, { next: edited, current });
  const next = await admit(call, deps, { change, current, next: prepared });
  await queueIfHeavy(call, deps, length);
  return isUnchanged(next, current) && !isReleased(next)
    ? current
    : commit(call, deps, { stored, next });
}

/** Tries until the race is won. Throws a StatusError 409 where it never is. */
async function insist(call: Call, deps: VerbDeps, change: Change): Promise<KubeObject> {
  for (let count = 0; count < ATTEMPTS; count += 1) {
    const changed = await attempt(call, deps, change);
    if (changed !== undefined) {
      return changed;
    }
  }
  throw modified(aboutOf(call.kind), call.name);
}

/** Makes a change; a race that is lost is run again on the newer object, where `edit` refuses a resourceVersion that the client named. Throws StatusErrors 404, 409 and 422. */
export async function changeObject(
  call: Call,
  deps: VerbDeps,
  change: Change,
): Promise<KubeObject> {
  const changed = await attempt(call, deps, change);
  if (changed !== undefined) {
    return changed;
  }
  // Writers that have lost a race go on one after the other: else many of them do little but lose again.
  const key = printAddress(addressOf(call));
  return deps.mutex.runExclusive(key, () => insist(call, deps, change));
}
