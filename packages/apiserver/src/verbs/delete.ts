// SPDX-License-Identifier: Apache-2.0
// DELETE of one object: preconditions, grace, finalizers, propagation.
import { parseOptions } from "../http/body.ts";
import { badRequest, conflict, notFound, successBody } from "../http/status.ts";
import type { Kind } from "../kinds/kind.ts";
import { type Fields, asText, listOf, textAt, valueAt } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import { rfc3339 } from "../objects/time.ts";
import type { StoredObject, Transaction } from "../storage/store.ts";
import { type Call, type Deps, type Reply, aboutOf, addressOf, isDryRun } from "./call.ts";
import { readObject, toStorage } from "./readable.ts";

const ATTEMPTS = 20;
const PROPAGATION: Readonly<Record<string, string>> = {
  Foreground: "foregroundDeletion",
  Orphan: "orphan",
};

/** How to delete. Source: metav1.DeleteOptions. */
export interface DeleteOptions {
  readonly graceSeconds: number | undefined;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly propagationPolicy: string;
  readonly dryRun: boolean;
}

function numberOf(value: unknown): number | undefined {
  return value === undefined || value === null || value === "" ? undefined : Number(value);
}

function policyOf(call: Call, given: Fields): string {
  const orphan = asText(given["orphanDependents"]) || call.query.get("orphanDependents");
  const policy = textAt(given, "propagationPolicy") || (call.query.get("propagationPolicy") ?? "");
  if (policy !== "" && policy !== "Background" && PROPAGATION[policy] === undefined) {
    throw badRequest(`propagationPolicy: Unsupported value: "${policy}"`);
  }
  return policy === "" && orphan === "true" ? "Orphan" : policy;
}

/** Options of body and query. Throws a StatusError 400. */
export function deleteOptionsOf(call: Call): DeleteOptions {
  const given = parseOptions(call.body);
  return {
    graceSeconds: numberOf(given["gracePeriodSeconds"] ?? call.query.get("gracePeriodSeconds")),
    uid: textAt(given, "preconditions", "uid"),
    resourceVersion: textAt(given, "preconditions", "resourceVersion"),
    propagationPolicy: policyOf(call, given),
    dryRun: isDryRun(call.query) || listOf(given["dryRun"]).includes("All"),
  };
}

function checkPreconditions(kind: Kind, object: KubeObject, options: DeleteOptions): void {
  const { uid = "", resourceVersion = "", name } = object.metadata;
  const about = aboutOf(kind);
  if (options.uid !== "" && options.uid !== uid) {
    const why = `Precondition failed: UID in precondition: ${options.uid}, UID in object meta: ${uid}`;
    throw conflict(about, name, why);
  }
  if (options.resourceVersion !== "" && options.resourceVersion !== resourceVersion) {
    const why = `Precondition failed: ResourceVersion in precondition: ${options.resourceVersion}, ResourceVersion in object meta: ${resourceVersion}`;
    throw conflict(about, name, why);
  }
}

function applyPropagation(object: KubeObject, policy: string): void {
  if (policy === "") {
    return;
  }
  const others = (object.metadata.finalizers ?? []).filter(
    (finalizer) => !Object.values(PROPAGATION).includes(finalizer),
  );
  const own = PROPAGATION[policy];
  const finalizers = own === undefined ? others : [...others, own];
  if (finalizers.length === 0) {
    delete object.metadata.finalizers;
  } else {
    object.metadata.finalizers = finalizers;
  }
}

/** Marks an object that is to stay for a while. False where it is marked already, with no more grace than asked. */
function mark(kind: Kind, object: KubeObject, at: { grace: number; nowMs: number }): boolean {
  const { metadata } = object;
  const given = metadata.deletionGracePeriodSeconds ?? 0;
  if (metadata.deletionTimestamp !== undefined && given <= at.grace) {
    return false;
  }
  if (metadata.deletionTimestamp === undefined && kind.strategy.hasGeneration) {
    metadata.generation = (metadata.generation ?? 0) + 1;
  }
  metadata.deletionTimestamp = rfc3339(at.nowMs + at.grace * 1000);
  metadata.deletionGracePeriodSeconds = at.grace;
  kind.strategy.beginDeletion?.(object);
  return true;
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
  readonly call: Call;
  readonly options: DeleteOptions;
  readonly stored: StoredObject;
  readonly object: KubeObject;
  readonly nowMs: number;
}

function perform(transaction: Transaction, step: Step): Deleted {
  const { object, options } = step;
  const { kind } = step.call;
  const address = step.stored.address;
  applyPropagation(object, options.propagationPolicy);
  const grace = kind.strategy.graceSeconds?.(object, options.graceSeconds);
  if (grace === undefined && !isHeld(object)) {
    if (!options.dryRun) {
      const gone = transaction.remove(address, toStorage(kind, object));
      object.metadata.resourceVersion = gone.metadata.resourceVersion ?? "";
    }
    return { object, removed: true };
  }
  const changed = mark(kind, object, { grace: grace ?? 0, nowMs: step.nowMs });
  if (changed && !options.dryRun) {
    const written = transaction.put(address, toStorage(kind, object));
    object.metadata.resourceVersion = written.metadata.resourceVersion ?? "";
  }
  return { object, removed: false };
}

function preconditionFields({ uid, resourceVersion }: DeleteOptions): Fields {
  const given = {
    ...(uid === "" ? {} : { uid }),
    ...(resourceVersion === "" ? {} : { resourceVersion }),
  };
  return uid === "" && resourceVersion === "" ? {} : { preconditions: given };
}

function optionsFields(options: DeleteOptions): Fields {
  return {
    kind: "DeleteOptions",
    apiVersion: "meta.k8s.io/v1",
    ...(options.propagationPolicy === "" ? {} : { propagationPolicy: options.propagationPolicy }),
    ...(options.graceSeconds === undefined ? {} : { gracePeriodSeconds: options.graceSeconds }),
    ...preconditionFields(options),
    ...(options.dryRun ? { dryRun: ["All"] } : {}),
  };
}

/** Deletes one object, or marks it where something holds it. Throws StatusErrors 404 and 409. */
export async function deleteOne(call: Call, deps: Deps, options: DeleteOptions): Promise<Deleted> {
  const address = addressOf(call);
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    const stored = deps.store.find(address);
    if (stored === undefined) {
      throw notFound(aboutOf(call.kind), call.name);
    }
    const object = readObject(call.kind, stored);
    checkPreconditions(call.kind, object, options);
    await deps.admission.admitDeletion({
      kind: call.kind,
      subresource: "",
      operation: "DELETE",
      namespace: call.namespace,
      name: call.name,
      object: undefined,
      oldObject: object,
      options: optionsFields(options),
      user: call.user,
      dryRun: options.dryRun,
      warnings: call.warnings,
    });
    const nowMs = deps.clock.now();
    const deleted = await deps.store.write((transaction) =>
      transaction.find(address)?.revision === stored.revision
        ? perform(transaction, { call, options, stored, object, nowMs })
        : undefined,
    );
    if (deleted !== undefined) {
      return deleted;
    }
  }
  throw conflict(aboutOf(call.kind), call.name, "the object changes too often to be deleted");
}

/** Deletes the object of a call. Throws StatusErrors 400, 404 and 409. */
export async function deleteObject(call: Call, deps: Deps): Promise<Reply> {
  const { object, removed } = await deleteOne(call, deps, deleteOptionsOf(call));
  if (!removed || call.kind.strategy.returnsDeleted === true) {
    return { type: "object", code: 200, object };
  }
  const { name, uid = "" } = object.metadata;
  const { group, resource } = call.kind;
  const details = { name, ...(group === "" ? {} : { group }), kind: resource, uid };
  return { type: "fields", code: 200, fields: successBody(details) };
}
