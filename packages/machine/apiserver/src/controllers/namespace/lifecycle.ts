// SPDX-License-Identifier: Apache-2.0
// Empties namespaces that are being deleted, then lets them go.
import { NAMESPACE } from "../../kinds/cluster/namespace.ts";
import { bucketOf } from "../../kinds/kind.ts";
import { fieldsOf, listOf } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import { rfc3339 } from "../../objects/time.ts";
import type { StoredObject } from "../../storage/store.ts";
import type { VerbDeps } from "../../verbs/deps.ts";
import { changeInternally, deleteInternally } from "../internal-call.ts";
import { withRemaining } from "./conditions.ts";
import { WorkQueue } from "../work-queue.ts";

const BUCKET = bucketOf(NAMESPACE);
const FINALIZER = "kubernetes";

function contentsOf(deps: VerbDeps, namespace: string): readonly StoredObject[] {
  return deps.store.buckets().flatMap((bucket) => deps.store.list({ bucket, namespace }));
}

function isTerminating(deps: VerbDeps, name: string): boolean {
  const stored = deps.store.find({ bucket: BUCKET, namespace: "", name });
  return stored?.deleting === true;
}

async function empty(deps: VerbDeps, name: string): Promise<void> {
  if (!isTerminating(deps, name)) {
    return;
  }
  const contents = contentsOf(deps, name);
  await Promise.all(
    contents
      .filter((stored) => !stored.deleting)
      .map(async (stored) => {
        const kind = deps.registry.findByBucket(stored.address.bucket);
        if (kind !== undefined) {
          const at = { kind, address: stored.address };
          await deleteInternally(deps, at, { uid: "", propagationPolicy: "Background" });
        }
      }),
  );
  const left = contentsOf(deps, name);
  const at = { kind: NAMESPACE, address: { bucket: BUCKET, namespace: "", name } };
  if (left.length > 0) {
    const now = rfc3339(deps.clock.now());
    const status = { ...at, subresource: "status" };
    await changeInternally(deps, status, (namespace) => withRemaining(namespace, left, now));
  } else {
    await changeInternally(deps, { ...at, subresource: "finalize" }, finalized);
  }
}

/** The namespace without this controller's own finalizer; others may have theirs. Changes it. */
function finalized(namespace: KubeObject): KubeObject {
  const spec = fieldsOf(namespace["spec"]);
  const finalizers = listOf(spec["finalizers"]).filter((name) => name !== FINALIZER);
  namespace["spec"] = { ...spec, finalizers };
  return namespace;
}

/** Starts the controller; it follows the store until `stop` is aborted. */
export function startNamespaceLifecycle(deps: VerbDeps, stop: AbortSignal): void {
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
