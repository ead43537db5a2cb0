// SPDX-License-Identifier: Apache-2.0
// Accepts the names of a waiting CustomResourceDefinition once no other definition has them any more.
import { DEFINITIONS_BUCKET, withNames } from "../../custom/definition.ts";
import { listOf, textAt, valueAt } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import { rfc3339 } from "../../objects/time.ts";
import type { StoredObject } from "../../storage/store.ts";
import type { VerbDeps } from "../../verbs/deps.ts";
import { changeInternally } from "../internal-call.ts";
import { WorkQueue } from "../work-queue.ts";

function isWaiting(stored: StoredObject): boolean {
  return listOf(valueAt(stored.view(), "status", "conditions")).some(
    (condition) =>
      textAt(condition, "type") === "NamesAccepted" && textAt(condition, "status") === "False",
  );
}

async function decide(deps: VerbDeps, name: string): Promise<void> {
  const address = { bucket: DEFINITIONS_BUCKET, namespace: "", name };
  const kind = deps.registry.findByBucket(DEFINITIONS_BUCKET);
  if (kind === undefined || deps.store.find(address) === undefined) {
    return;
  }
  const all = deps.store.list({ bucket: DEFINITIONS_BUCKET }).map((stored) => stored.view());
  const now = rfc3339(deps.clock.now());
  await changeInternally(deps, { kind, address, subresource: "status" }, (object: KubeObject) => {
    object["status"] = withNames(object, all, now);
    return object;
  });
}

/** Starts the controller; it follows the store until `stop` is aborted. */
export function startDefinitionNames(deps: VerbDeps, stop: AbortSignal): void {
  const { clock, logger, store } = deps;
  const work = (name: string) => decide(deps, name);
  const queue = new WorkQueue({ name: "definition-names", clock, logger, stop, work });
  const addWaiting = () => {
    for (const stored of store.list({ bucket: DEFINITIONS_BUCKET }).filter(isWaiting)) {
      queue.add(stored.address.name);
    }
  };
  const unsubscribe = store.subscribe((changes) => {
    if (changes.some(({ current }) => current.address.bucket === DEFINITIONS_BUCKET)) {
      addWaiting();
    }
  });
  stop.addEventListener("abort", unsubscribe);
  addWaiting();
}
