// SPDX-License-Identifier: Apache-2.0
// Says in each APIService whether its server can be reached: condition Available.
import { changeInternally } from "../controllers/internal-call.ts";
import { WorkQueue } from "../controllers/work-queue.ts";
import { fieldsOf, listOf, textAt } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import { rfc3339 } from "../objects/time.ts";
import type { Deps } from "../verbs/call.ts";
import { API_SERVICES_BUCKET, isAggregated, resolveApiService } from "./api-services.ts";

const CONCERNED = new Set([API_SERVICES_BUCKET, "/services", "/endpoints"]);

interface Availability {
  readonly status: "True" | "False";
  readonly reason: string;
  readonly message: string;
}

function availabilityOf(deps: Deps, apiService: KubeObject): Availability {
  if (!isAggregated(apiService)) {
    return { status: "True", reason: "Local", message: "Local APIServices are always available" };
  }
  const resolution = resolveApiService(deps.store, apiService);
  return resolution.found
    ? { status: "True", reason: "Passed", message: "all checks passed" }
    : { status: "False", reason: resolution.reason, message: resolution.message };
}

function withCondition(apiService: KubeObject, available: Availability, now: string): KubeObject {
  const status = fieldsOf(apiService["status"]);
  const conditions = listOf(status["conditions"]);
  const before = conditions.find((condition) => textAt(condition, "type") === "Available");
  const since =
    textAt(before, "status") === available.status ? textAt(before, "lastTransitionTime") : now;
  const others = conditions.filter((condition) => condition !== before);
  const condition = { type: "Available", ...available, lastTransitionTime: since };
  apiService["status"] = { ...status, conditions: [...others, condition] };
  return apiService;
}

async function report(deps: Deps, name: string): Promise<void> {
  const address = { bucket: API_SERVICES_BUCKET, namespace: "", name };
  const kind = deps.registry.findByBucket(API_SERVICES_BUCKET);
  if (kind !== undefined && deps.store.find(address) !== undefined) {
    await changeInternally(deps, { kind, address }, (apiService) =>
      withCondition(apiService, availabilityOf(deps, apiService), rfc3339(deps.clock.now())),
    );
  }
}

/** Starts the controller; it follows the store until `stop` is aborted. */
export function startAvailability(deps: Deps, stop: AbortSignal): void {
  const { clock, logger, store } = deps;
  const work = (name: string) => report(deps, name);
  const queue = new WorkQueue({ name: "apiservice-availability", clock, logger, stop, work });
  const addAll = () => {
    for (const stored of store.list({ bucket: API_SERVICES_BUCKET })) {
      queue.add(stored.address.name);
    }
  };
  const unsubscribe = store.subscribe((changes) => {
    if (changes.some(({ current }) => CONCERNED.has(current.address.bucket))) {
      addAll();
    }
  });
  stop.addEventListener("abort", unsubscribe);
  addAll();
}
