// SPDX-License-Identifier: Apache-2.0
// Empties namespaces that are being deleted, then lets them go.
import { NAMESPACE } from "../kinds/namespace.ts";
import { bucketOf } from "../kinds/kind.ts";
import { fieldsOf } from "../objects/json.ts";
import type { StoredObject } from "../storage/store.ts";
import type { Deps } from "../verbs/call.ts";
import { changeInternally, deleteInternally } from "./internal-call.ts";
import { WorkQueue } from "./work-queue.ts";

const BUCKET = bucketOf(NAMESPACE);

function contentsOf(deps: Deps, namespace: string): readonly StoredObject[] {
  return deps.store.buckets().flatMap((bucket) => deps.store.list({ bucket, namespace }));
}

function isTerminating(deps: Deps, name: string): boolean {
  const stored = deps.store.find({ bucket: BUCKET, namespace: "", name });
  return stored?.view().metadata.deletionTimestamp !== undefined;
}

async function empty(deps: Deps, name: string): Promise<void> {
  if (!isTerminating(deps, name)) {
    return;
  }
  const contents = contentsOf(deps, name);
  await Promise.all(
    contents
      .filter((stored) => stored.view().metadata.deletionTimestamp === undefined)
      .map(async (stored) => {
        const kind = deps.registry.findByBucket(stored.address.bucket);
        if (kind !== undefined) {
          const at = { kind, address: stored.address };
          await deleteInternally(deps, at, { uid: "", propagationPolicy: "Background" });
        }
      }),
  );
  if (contentsOf(deps, name).length === 0) {
    const at = { kind: NAMESPACE, address: { bucket: BUCKET, namespace: "", name } };
    await changeInternally(deps, at, (namespace) => {
      namespace["spec"] = { ...fieldsOf(namespace["spec"]), finalizers: [] };
      return namespace;
    });
  }
}

/** Starts the controller; it follows the store until `stop` is aborted. */
export function startNamespaceLifecycle(deps: Deps, stop: AbortSignal): void {
  const { clock, logger, store } = deps;
  const work = (name: string) => empty(deps, name);
  const queue = new WorkQueue({ name: "namespace-lifecycle", clock, logger, stop, work });
  const unsubscribe = store.subscribe((changes) => {
    for (const { current, type } of changes) {
      const { bucket, namespace, name } = current.address;
      const affected = bucket === BUCKET ? name : namespace;
      if (
        affected !== "" &&
        (bucket === BUCKET || type === "DELETED") &&
        isTerminating(deps, affected)
      ) {
        queue.add(affected);
      }
    }
  });
  stop.addEventListener("abort", unsubscribe);
  for (const stored of store.list({ bucket: BUCKET })) {
    queue.add(stored.address.name);
  }
}
