// SPDX-License-Identifier: Apache-2.0
// Keeps an APIService for each group version that this server has itself. Source: Kubernetes kube-aggregator, autoregister.
import { WorkQueue } from "../controllers/work-queue.ts";
import { API_SERVICE } from "../kinds/extension/api-service.ts";
import { apiVersionOf } from "../kinds/kind.ts";
import { DEFINITIONS_BUCKET } from "../custom/definition.ts";
import { equalJson, fieldsOf, textAt } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import { rfc3339 } from "../objects/time.ts";
import type { Transaction } from "../storage/store.ts";
import type { VerbDeps } from "../verbs/deps.ts";
import { API_SERVICES_BUCKET, localPriority } from "./api-services.ts";
import { LOCAL } from "./availability.ts";

const LABEL = "kube-aggregator.kubernetes.io/automanaged";

/** `onstart`: kept at the start of the server; `true`: always. */
type Management = "onstart" | "true";

interface Wanted {
  readonly name: string;
  readonly group: string;
  readonly version: string;
  readonly management: Management;
}

/** The group of APIServices has none: it is there before them. */
function wantedOf(deps: VerbDeps): ReadonlyMap<string, Wanted> {
  const wanted = deps.registry
    .list()
    .filter((kind) => kind.group !== API_SERVICE.group)
    .map(({ group, version, custom }): Wanted => {
      const management = custom === undefined ? "onstart" : "true";
      return { name: `${version}.${group}`, group, version, management };
    });
  return new Map(wanted.map((one) => [one.name, one]));
}

function specOf({ group, version, management }: Wanted): Record<string, unknown> {
  const priority = localPriority(group, version, management === "true");
  return {
    ...(group === "" ? {} : { group }),
    version,
    groupPriorityMinimum: priority.group,
    versionPriority: priority.version,
  };
}

function newObject(deps: VerbDeps, wanted: Wanted): KubeObject {
  const now = rfc3339(deps.clock.now());
  return {
    apiVersion: apiVersionOf(API_SERVICE),
    kind: API_SERVICE.kind,
    metadata: {
      name: wanted.name,
      uid: deps.random.uid(),
      creationTimestamp: now,
      labels: { [LABEL]: wanted.management },
    },
    spec: specOf(wanted),
    status: { conditions: [{ type: "Available", ...LOCAL, lastTransitionTime: now }] },
  };
}

function addressOf(name: string) {
  return { bucket: API_SERVICES_BUCKET, namespace: "", name };
}

/** Puts one where it is missing, and its specification right where it is ours; others' stay. */
function keep(deps: VerbDeps, transaction: Transaction, wanted: Wanted): void {
  const stored = transaction.find(addressOf(wanted.name));
  if (stored === undefined) {
    transaction.put(addressOf(wanted.name), newObject(deps, wanted));
    return;
  }
  const isOurs = stored.view().metadata.labels?.[LABEL] === wanted.management;
  if (isOurs && !equalJson(fieldsOf(stored.view()["spec"]), specOf(wanted))) {
    transaction.put(addressOf(wanted.name), { ...stored.copy(), spec: specOf(wanted) });
  }
}

/** Keeps and removes; `managements`: which of them are looked at now. */
async function sync(deps: VerbDeps, managements: readonly Management[]): Promise<void> {
  const wanted = wantedOf(deps);
  await deps.store.write((transaction) => {
    for (const one of wanted.values()) {
      if (managements.includes(one.management)) {
        keep(deps, transaction, one);
      }
    }
    for (const stored of deps.store.list({ bucket: API_SERVICES_BUCKET })) {
      const management = textAt(stored.view(), "metadata", "labels", LABEL);
      const isOurs = managements.some((looked) => looked === management);
      if (isOurs && !wanted.has(stored.address.name)) {
        transaction.remove(stored.address, stored.copy());
      }
    }
  });
}

/** Makes what is missing, then follows the definitions until `stop` is aborted. */
export async function startLocalApiServices(deps: VerbDeps, stop: AbortSignal): Promise<void> {
  const { clock, logger, store } = deps;
  await sync(deps, ["onstart", "true"]);
  const work = () => sync(deps, ["true"]);
  const queue = new WorkQueue({ name: "local-apiservices", clock, logger, stop, work });
  const unsubscribe = store.subscribe((changes) => {
    const concerns = changes.some(
      ({ current: { address }, type, current }) =>
        address.bucket === DEFINITIONS_BUCKET ||
        (address.bucket === API_SERVICES_BUCKET &&
          type !== "ADDED" &&
          textAt(current.view(), "metadata", "labels", LABEL) === "true"),
    );
    if (concerns) {
      queue.add("all");
    }
  });
  stop.addEventListener("abort", unsubscribe);
}
