// SPDX-License-Identifier: Apache-2.0
// APIServices for the group versions of this server. Source: Kubernetes kube-aggregator, autoregister.
import { WorkQueue } from "../controllers/work-queue.ts";
import { API_SERVICE } from "../kinds/extension/api-service.ts";
import { apiVersionOf } from "../kinds/kind.ts";
import { DEFINITIONS_BUCKET } from "../custom/definition.ts";
import { equalJson, asFields, textAt } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import { rfc3339 } from "../objects/time.ts";
import type { Transaction } from "../storage/store.ts";
import type { VerbDeps } from "../verbs/deps.ts";
import { API_SERVICES_BUCKET, localPriority } from "./api-services.ts";
import { LOCALLY_AVAILABLE } from "./availability.ts";

const MANAGED_LABEL = "kube-aggregator.kubernetes.io/automanaged";

/** Value of MANAGED_LABEL. `onstart`: the APIService is created when the server starts; `true`: it is reconciled continuously. */
type Management = "onstart" | "true";

interface DesiredApiService {
  readonly name: string;
  readonly group: string;
  readonly version: string;
  readonly management: Management;
}

/** Returns the desired APIServices by name. The group apiregistration.k8s.io itself gets no APIService. */
function desiredApiServices(deps: VerbDeps): ReadonlyMap<string, DesiredApiService> {
  const apiServices = deps.registry
    .list()
    .filter((kind) => kind.group !== API_SERVICE.group)
    .map(({ group, version, custom }): DesiredApiService => {
      const management = custom === undefined ? "onstart" : "true";
      return { name: `${version}.${group}`, group, version, management };
    });
  return new Map(apiServices.map((apiService) => [apiService.name, apiService]));
}

function toSpec({ group, version, management }: DesiredApiService): Record<string, unknown> {
  const priority = localPriority(group, version, management === "true");
  return {
    ...(group === "" ? {} : { group }),
    version,
    groupPriorityMinimum: priority.group,
    versionPriority: priority.version,
  };
}

function newObject(deps: VerbDeps, desired: DesiredApiService): KubeObject {
  const now = rfc3339(deps.clock.now());
  return {
    apiVersion: apiVersionOf(API_SERVICE),
    kind: API_SERVICE.kind,
    metadata: {
      name: desired.name,
      uid: deps.random.uid(),
      creationTimestamp: now,
      labels: { [MANAGED_LABEL]: desired.management },
    },
    spec: toSpec(desired),
    status: { conditions: [{ type: "Available", ...LOCALLY_AVAILABLE, lastTransitionTime: now }] },
  };
}

function toAddress(name: string) {
  return { bucket: API_SERVICES_BUCKET, namespace: "", name };
}

/** Creates the APIService. Corrects the spec of an existing APIService only if MANAGED_LABEL has the expected value. */
function ensureApiService(
  deps: VerbDeps,
  transaction: Transaction,
  desired: DesiredApiService,
): void {
  const stored = transaction.find(toAddress(desired.name));
  if (stored === undefined) {
    transaction.put(toAddress(desired.name), newObject(deps, desired));
    return;
  }
  const isLocal = stored.view().metadata.labels?.[MANAGED_LABEL] === desired.management;
  if (isLocal && !equalJson(asFields(stored.view()["spec"]), toSpec(desired))) {
    transaction.put(toAddress(desired.name), { ...stored.copy(), spec: toSpec(desired) });
  }
}

async function sync(deps: VerbDeps, managements: readonly Management[]): Promise<void> {
  const desired = desiredApiServices(deps);
  await deps.store.write((transaction) => {
    for (const apiService of desired.values()) {
      if (managements.includes(apiService.management)) {
        ensureApiService(deps, transaction, apiService);
      }
    }
    for (const stored of deps.store.list({ bucket: API_SERVICES_BUCKET })) {
      const management = textAt(stored.view(), "metadata", "labels", MANAGED_LABEL);
      const isLocal = managements.some((mode) => mode === management);
      if (isLocal && !desired.has(stored.address.name)) {
        transaction.remove(stored.address, stored.copy());
      }
    }
  });
}

export async function startLocalApiServices(deps: VerbDeps, stop: AbortSignal): Promise<void> {
  const { clock, logger, store } = deps;
  await sync(deps, ["onstart", "true"]);
  const work = () => sync(deps, ["true"]);
  const queue = new WorkQueue({ name: "local-apiservices", clock, logger, stop, work });
  const unsubscribe = store.subscribe((changes) => {
    const isRelevant = changes.some(
      ({ current: { address }, type, current }) =>
        address.bucket === DEFINITIONS_BUCKET ||
        (address.bucket === API_SERVICES_BUCKET &&
          type !== "ADDED" &&
          textAt(current.view(), "metadata", "labels", MANAGED_LABEL) === "true"),
    );
    if (isRelevant) {
      queue.add("all");
    }
  });
  stop.addEventListener("abort", unsubscribe);
}
