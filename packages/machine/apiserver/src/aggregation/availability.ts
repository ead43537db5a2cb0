// SPDX-License-Identifier: Apache-2.0
// Says in each APIService whether its server can be reached: condition Available.
import { changeInternally } from "../controllers/internal-call.ts";
import { WorkQueue } from "../controllers/work-queue.ts";
import { equalJson, fieldsOf, listOf, textAt, valueAt } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import { rfc3339 } from "../objects/time.ts";
import type { Change } from "../storage/store.ts";
import type { VerbDeps } from "../verbs/deps.ts";
import { API_SERVICES_BUCKET, availableCondition, isAggregated } from "./api-services.ts";
import { type Availability, type ProbeDeps, probe } from "./probe.ts";

/** How often a server is asked while nothing changes. Source: Kubernetes kube-aggregator. */
const PROBE_EVERY_MS = 30_000;

/** A server that comes back is known so soon: whoever starts servers does not wait for the API server to notice. */
const RETRY_MAX_MS = 1000;

const BACKENDS: ReadonlySet<string> = new Set(["/services", "/endpoints"]);

/** The server's own parts, to write conditions, and those that reach other servers. */
export type AvailabilityDeps = VerbDeps & Pick<ProbeDeps, "connections" | "remote">;

function withCondition(apiService: KubeObject, available: Availability, now: string): KubeObject {
  const status = fieldsOf(apiService["status"]);
  const before = availableCondition(apiService);
  const since =
    textAt(before, "status") === available.status ? textAt(before, "lastTransitionTime") : now;
  const others = listOf(status["conditions"]).filter((condition) => condition !== before);
  const condition = { type: "Available", ...available, lastTransitionTime: since };
  apiService["status"] = { ...status, conditions: [...others, condition] };
  return apiService;
}

/** Whether the condition says it already: then nothing is written, and admission is not asked. */
function isSaid(apiService: KubeObject, available: Availability): boolean {
  const said = availableCondition(apiService);
  return Object.entries(available).every(([key, value]) => textAt(said, key) === value);
}

/** Throws where the server did not answer, so that it is asked again soon. */
async function report(deps: AvailabilityDeps, name: string): Promise<void> {
  const address = { bucket: API_SERVICES_BUCKET, namespace: "", name };
  const kind = deps.registry.findByBucket(API_SERVICES_BUCKET);
  const seen = deps.store.find(address)?.view();
  if (kind === undefined || seen === undefined) {
    return;
  }
  const available = await probe(seen, deps);
  if (!isSaid(seen, available)) {
    const at = { kind, address, subresource: "status" };
    await changeInternally(deps, at, (apiService) =>
      equalJson(apiService["spec"], seen["spec"])
        ? withCondition(apiService, available, rfc3339(deps.clock.now()))
        : apiService,
    );
  }
  if (available.reason === "FailedDiscoveryCheck") {
    throw new Error(available.message);
  }
}

/** APIServices that a change may make available or not. */
function concernedBy(deps: VerbDeps, { current, previous }: Change): readonly string[] {
  const { bucket, namespace, name } = current.address;
  if (bucket === API_SERVICES_BUCKET) {
    const isSame = equalJson(current.view()["spec"], previous?.view()["spec"]);
    return isSame ? [] : [name];
  }
  return BACKENDS.has(bucket)
    ? deps.store
        .list({ bucket: API_SERVICES_BUCKET })
        .filter((stored) => {
          const service = valueAt(stored.view(), "spec", "service");
          return textAt(service, "name") === name && textAt(service, "namespace") === namespace;
        })
        .map((stored) => stored.address.name)
    : [];
}

/** Adds what another server has, time and again. */
async function repeat(
  deps: VerbDeps,
  stop: AbortSignal,
  add: (name: string) => void,
): Promise<void> {
  while (!stop.aborted) {
    await deps.clock.sleep(PROBE_EVERY_MS, stop).catch(() => undefined);
    for (const stored of deps.store.list({ bucket: API_SERVICES_BUCKET })) {
      if (isAggregated(stored.view())) {
        add(stored.address.name);
      }
    }
  }
}

/** Starts the controller; it follows the store until `stop` is aborted. */
export function startAvailability(deps: AvailabilityDeps, stop: AbortSignal): void {
  const { clock, logger, store } = deps;
  const work = (name: string) => report(deps, name);
  const name = "apiservice-availability";
  const queue = new WorkQueue({ name, clock, logger, stop, work, retryMaxMs: RETRY_MAX_MS });
  const unsubscribe = store.subscribe((changes) => {
    for (const concerned of changes.flatMap((change) => concernedBy(deps, change))) {
      queue.add(concerned);
    }
  });
  stop.addEventListener("abort", unsubscribe);
  for (const stored of store.list({ bucket: API_SERVICES_BUCKET })) {
    queue.add(stored.address.name);
  }
  void repeat(deps, stop, (aggregated) => {
    queue.add(aggregated);
  });
}
