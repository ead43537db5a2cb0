// SPDX-License-Identifier: Apache-2.0
import { CLEANUP_FINALIZER, DEFINITIONS_BUCKET, withNameConditions } from "../custom/definition.ts";
import { asFields, asList, textAt, valueAt } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import { rfc3339 } from "../objects/time.ts";
import type { StoredObject } from "../storage/store.ts";
import type { VerbDeps } from "../verbs/deps.ts";
import { changeInternally, deleteInternally } from "./internal-writes.ts";
import { WorkQueue } from "./work-queue.ts";

function customResourceBucket(definition: KubeObject): string {
  return `${textAt(definition, "spec", "group")}/${textAt(definition, "spec", "names", "plural")}`;
}

function markTerminating(definition: KubeObject, now: string): KubeObject {
  const status = asFields(definition["status"]);
  const conditions = asList(status["conditions"]);
  if (conditions.some((condition) => textAt(condition, "type") === "Terminating")) {
    return definition;
  }
  const terminatingCondition = {
    type: "Terminating",
    status: "True",
    reason: "InstanceDeletionInProgress",
    message: "CustomResource deletion is in progress",
    lastTransitionTime: now,
  };
  definition["status"] = { ...status, conditions: [...conditions, terminatingCondition] };
  return definition;
}

function removeFinalizer(definition: KubeObject): KubeObject {
  const { finalizers = [] } = definition.metadata;
  definition.metadata.finalizers = finalizers.filter((name) => name !== CLEANUP_FINALIZER);
  return definition;
}

/** Deletes the custom resources. Returns whether none remain. */
async function deleteObjects(deps: VerbDeps, bucket: string): Promise<boolean> {
  const kind = deps.registry.findByBucket(bucket);
  if (kind === undefined) {
    return true;
  }
  for (const { address, view } of deps.store
    .list({ bucket })
    .map((stored) => ({ address: stored.address, view: stored.view() }))) {
    if (view.metadata.deletionTimestamp === undefined) {
      await deleteInternally(deps, { kind, address }, { uid: "", propagationPolicy: "Background" });
    }
  }
  return deps.store.list({ bucket }).length === 0;
}

async function cleanUp(deps: VerbDeps, name: string): Promise<void> {
  const address = { bucket: DEFINITIONS_BUCKET, namespace: "", name };
  const definition = deps.store.find(address)?.view();
  const kind = deps.registry.findByBucket(DEFINITIONS_BUCKET);
  if (definition?.metadata.deletionTimestamp === undefined || kind === undefined) {
    return;
  }
  const now = rfc3339(deps.clock.now());
  await changeInternally(deps, { kind, address }, (object) => markTerminating(object, now));
  if (await deleteObjects(deps, customResourceBucket(definition))) {
    await changeInternally(deps, { kind, address }, removeFinalizer);
  }
}

export function startDefinitionCleanup(deps: VerbDeps, stop: AbortSignal): void {
  const { clock, logger, store } = deps;
  const work = (name: string) => cleanUp(deps, name);
  const queue = new WorkQueue({ name: "definition-cleanup", clock, logger, stop, work });
  const listTerminating = () =>
    store
      .list({ bucket: DEFINITIONS_BUCKET })
      .filter((stored) => stored.view().metadata.deletionTimestamp !== undefined);
  const addTerminating = () => {
    for (const stored of listTerminating()) {
      queue.add(stored.address.name);
    }
  };
  const unsubscribe = store.subscribe((changes) => {
    const isRelevant = changes.some(
      ({ current, type }) => current.address.bucket === DEFINITIONS_BUCKET || type === "DELETED",
    );
    if (isRelevant) {
      addTerminating();
    }
  });
  stop.addEventListener("abort", unsubscribe);
  addTerminating();
}

function hasUnacceptedNames(stored: StoredObject): boolean {
  return asList(valueAt(stored.view(), "status", "conditions")).some(
    (condition) =>
      textAt(condition, "type") === "NamesAccepted" && textAt(condition, "status") === "False",
  );
}

async function acceptNames(deps: VerbDeps, name: string): Promise<void> {
  const address = { bucket: DEFINITIONS_BUCKET, namespace: "", name };
  const kind = deps.registry.findByBucket(DEFINITIONS_BUCKET);
  if (kind === undefined || deps.store.find(address) === undefined) {
    return;
  }
  const definitions = deps.store
    .list({ bucket: DEFINITIONS_BUCKET })
    .map((stored) => stored.view());
  const now = rfc3339(deps.clock.now());
  await changeInternally(deps, { kind, address, subresource: "status" }, (object: KubeObject) => {
    object["status"] = withNameConditions(object, definitions, now);
    return object;
  });
}

/** Starts the controller that accepts the names of a rejected definition as soon as no other definition uses the names. */
export function startDefinitionNames(deps: VerbDeps, stop: AbortSignal): void {
  const { clock, logger, store } = deps;
  const work = (name: string) => acceptNames(deps, name);
  const queue = new WorkQueue({ name: "definition-names", clock, logger, stop, work });
  const addUnaccepted = () => {
    for (const stored of store.list({ bucket: DEFINITIONS_BUCKET }).filter(hasUnacceptedNames)) {
      queue.add(stored.address.name);
    }
  };
  const unsubscribe = store.subscribe((changes) => {
    if (changes.some(({ current }) => current.address.bucket === DEFINITIONS_BUCKET)) {
      addUnaccepted();
    }
  });
  stop.addEventListener("abort", unsubscribe);
  addUnaccepted();
}
