// SPDX-License-Identifier: Apache-2.0
// DELETE of one object: preconditions, grace, finalizers, propagation. Source: Kubernetes registry/rest BeforeDelete, generic Store.Delete.
import { conflict, forbidden, notFound, successBody } from "../meta/status.ts";
import { type Kind, bucketOf } from "../kinds/kind.ts";
import { NAMESPACE } from "../kinds/cluster/namespace.ts";
import { equalJson, listOf, valueAt } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import { parseTime, rfc3339 } from "../objects/time.ts";
import type { StoredObject, Transaction } from "../storage/store.ts";
import { type Call, type Reply, aboutOf, addressOf, queueIfHeavy } from "./call.ts";
import type { VerbDeps } from "./deps.ts";
import {
  type DeleteOptions,
  deleteOptionsFields,
  deleteOptionsOf,
} from "./options/delete-options.ts";
import { readObject, toStorage } from "./readable.ts";

/** After so many lost races a deletion is refused. */
const ATTEMPTS = 1000;
const FOREGROUND = "foregroundDeletion";
const ORPHAN = "orphan";
/** Source: Kubernetes NamespaceLifecycle admission. */
const IMMORTAL: ReadonlySet<string> = new Set(["default", "kube-public", "kube-system"]);

function checkPreconditions(kind: Kind, object: KubeObject, options: DeleteOptions): void {
  const { uid = "", resourceVersion = "", name } = object.metadata;
  const about = { ...aboutOf(kind), resource: kind.kind };
  if (options.uid !== "" && options.uid !== uid) {
    const why = `the UID in the precondition (${options.uid}) does not match the UID in record (${uid}). The object might have been deleted and then recreated`;
    throw conflict(about, name, why);
  }
  if (options.resourceVersion !== "" && options.resourceVersion !== resourceVersion) {
    const why = `the ResourceVersion in the precondition (${options.resourceVersion}) does not match the ResourceVersion in record (${resourceVersion}). The object might have been modified`;
    throw conflict(about, name, why);
  }
}

/** The finalizers that the options ask for; undefined where the object's own say it already. */
function propagationOf(kind: Kind, options: DeleteOptions): readonly string[] | undefined {
  const { propagationPolicy, orphanDependents } = options;
  if (kind.resource === "events" || (propagationPolicy === "" && orphanDependents === undefined)) {
    return undefined;
  }
  if (orphanDependents === true || propagationPolicy === "Orphan") {
    return [ORPHAN];
  }
  return propagationPolicy === "Foreground" ? [FOREGROUND] : [];
}

function applyPropagation(kind: Kind, object: KubeObject, options: DeleteOptions): void {
  const wanted = propagationOf(kind, options);
  if (wanted === undefined) {
    return;
  }
  const { finalizers = [] } = object.metadata;
  const others = finalizers.filter((name) => name !== FOREGROUND && name !== ORPHAN);
  const next = [...others, ...wanted];
  if (next.length === 0) {
    delete object.metadata.finalizers;
  } else if (!equalJson(finalizers.toSorted(), next.toSorted())) {
    object.metadata.finalizers = next;
  }
}

function countDeletion({ metadata }: KubeObject): void {
  if (metadata.generation !== undefined) {
    metadata.generation += 1;
  }
}

/** Less grace, counted from the first request. */
function shorten({ metadata }: KubeObject, grace: number): void {
  const saved = (metadata.deletionGracePeriodSeconds ?? 0) - grace;
  const until = parseTime(metadata.deletionTimestamp ?? "") - saved * 1000;
  metadata.deletionTimestamp = rfc3339(until);
  metadata.deletionGracePeriodSeconds = grace;
}

/** Begins or shortens the grace of an object. `none`: its kind has none, or it is over; `pending`: enough was said before. */
function applyGrace(
  kind: Kind,
  object: KubeObject,
  at: { readonly asked: number | undefined; readonly nowMs: number },
): "none" | "pending" | "begun" {
  const { graceSeconds } = kind.strategy;
  const { metadata } = object;
  if (graceSeconds === undefined) {
    return "none";
  }
  if (metadata.deletionTimestamp === undefined) {
    const grace = graceSeconds(object, at.asked) ?? 0;
    metadata.deletionTimestamp = rfc3339(at.nowMs + grace * 1000);
    metadata.deletionGracePeriodSeconds = grace;
    countDeletion(object);
    return "begun";
  }
  const given = metadata.deletionGracePeriodSeconds ?? 0;
  if (given === 0) {
    return "none";
  }
  if (at.asked === undefined || at.asked >= given) {
    return "pending";
  }
  shorten(object, at.asked);
  return "begun";
}

/** Marks an object that finalizers hold. */
function mark(kind: Kind, object: KubeObject, nowMs: number): void {
  const { metadata } = object;
  if (metadata.deletionTimestamp === undefined) {
    countDeletion(object);
    metadata.deletionTimestamp = rfc3339(nowMs);
  } else if (parseTime(metadata.deletionTimestamp) > nowMs) {
    metadata.deletionTimestamp = rfc3339(nowMs);
  }
  metadata.deletionGracePeriodSeconds = 0;
  kind.strategy.beginDeletion?.(object);
}

function isHeld(object: KubeObject): boolean {
  return (
    (object.metadata.finalizers ?? []).length > 0 ||
    listOf(valueAt(object, "spec", "finalizers")).length > 0
  );
}

/** What a deletion did. */
export interface Deleted {
  readonly object: KubeObject;
  /** Whether it is gone. */
  readonly removed: boolean;
}

interface Step {
  readonly kind: Kind;
  readonly options: DeleteOptions;
  readonly stored: StoredObject;
  readonly nowMs: number;
}

/** The object as the deletion leaves it. Watchers of kinds with grace see the mark before the end. */
function decide(step: Step): Deleted & { readonly changed: boolean } {
  const { kind, options, stored, nowMs } = step;
  const object = readObject(kind, stored);
  const grace = applyGrace(kind, object, { asked: options.graceSeconds, nowMs });
  if (grace === "pending") {
    return { object, removed: false, changed: false };
  }
  applyPropagation(kind, object, options);
  const held = isHeld(object);
  if (held && grace === "none") {
    mark(kind, object, nowMs);
  }
  const waits = (object.metadata.deletionGracePeriodSeconds ?? 0) > 0;
  const changed = !equalJson(object, readObject(kind, stored));
  return { object, removed: !held && !waits, changed };
}

function perform(transaction: Transaction, step: Step): Deleted {
  const { kind, options, stored } = step;
  const { object, removed, changed } = decide(step);
  const write = (written: KubeObject) => {
    object.metadata.resourceVersion = written.metadata.resourceVersion ?? "";
  };
  if (!options.dryRun && changed) {
    write(transaction.put(stored.address, toStorage(kind, object)));
  }
  if (!options.dryRun && removed) {
    write(transaction.remove(stored.address, toStorage(kind, object)));
  }
  return { object, removed };
}

/** Deletes one object, or marks it where something holds it. Throws StatusErrors 404 and 409. */
export async function deleteOne(
  call: Call,
  deps: VerbDeps,
  options: DeleteOptions,
): Promise<Deleted> {
  const { kind } = call;
  const address = addressOf(call);
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    const stored = deps.store.find(address);
    if (stored === undefined) {
      throw notFound(aboutOf(kind), call.name);
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
      options: deleteOptionsFields(options),
      user: call.user,
      dryRun: options.dryRun,
      warnings: call.warnings,
    });
    const nowMs = deps.clock.now();
    const deleted = await deps.store.write((transaction) =>
      transaction.find(address)?.revision === stored.revision
        ? perform(transaction, { kind, options, stored, nowMs })
        : undefined,
    );
    if (deleted !== undefined) {
      return deleted;
    }
  }
  throw conflict(aboutOf(kind), call.name, "the object changes too often to be deleted");
}

function checkMortal({ kind, name }: Call): void {
  if (bucketOf(kind) === bucketOf(NAMESPACE) && IMMORTAL.has(name)) {
    throw forbidden(aboutOf(kind), name, "this namespace may not be deleted");
  }
}

/** Deletes the object of a call. Throws StatusErrors 400, 403, 404, 409 and 422. */
export async function deleteObject(call: Call, deps: VerbDeps): Promise<Reply> {
  const options = deleteOptionsOf(call);
  checkMortal(call);
  const { object, removed } = await deleteOne(call, deps, options);
  if (!removed || call.kind.strategy.returnsDeleted === true) {
    const accepted = !removed && options.orphanDependents === false;
    return { type: "object", code: accepted ? 202 : 200, object };
  }
  const { name, uid = "" } = object.metadata;
  const { group, resource } = call.kind;
  const details = { name, ...(group === "" ? {} : { group }), kind: resource, uid };
  return { type: "fields", code: 200, fields: successBody(details) };
}
