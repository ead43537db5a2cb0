// SPDX-License-Identifier: Apache-2.0
// Maintains the status of PodDisruptionBudgets and ResourceQuotas. Source: Kubernetes disruption and resourcequota controllers.
import { RESOURCE_QUOTA } from "../kinds/cluster/resource-quota.ts";
import { type Kind, bucketOf } from "../kinds/kind.ts";
import {
  POD_DISRUPTION_BUDGET,
  countDisruptions,
  makePodMatcher,
} from "../kinds/workload/disruption-budget.ts";
import { POD } from "../kinds/workload/pod.ts";
import { asFields } from "../objects/json.ts";
import { type Address, type KubeObject, printAddress } from "../objects/object.ts";
import type { Change } from "../storage/store.ts";
import type { VerbDeps } from "../verbs/deps.ts";
import { changeInternally } from "./internal-writes.ts";
import { WorkQueue } from "./work-queue.ts";

const BUDGETS = bucketOf(POD_DISRUPTION_BUDGET);
const PODS = bucketOf(POD);

function affectedBudgets(
  { store }: VerbDeps,
  { current, previous, type }: Change,
): readonly Address[] {
  const { bucket, namespace } = current.address;
  if (bucket === BUDGETS) return type === "DELETED" ? [] : [current.address];
  if (bucket !== PODS) return [];
  const pods = [current.view(), ...(previous === undefined ? [] : [previous.view()])];
  return store
    .list({ bucket: BUDGETS, namespace })
    .filter((budget) => pods.some(makePodMatcher(budget.view())))
    .map(({ address }) => address);
}

interface ComputedStatus {
  readonly name: string;
  readonly kind: Kind;
  readonly withStatus: (object: KubeObject, address: Address) => KubeObject;
}

function startStatusQueue(
  deps: VerbDeps,
  stop: AbortSignal,
  { name, kind, withStatus }: ComputedStatus,
): (address: Address) => void {
  const { clock, logger, store } = deps;
  const pendingAddresses = new Map<string, Address>();
  const work = async (key: string): Promise<void> => {
    const address = pendingAddresses.get(key);
    if (address === undefined) return;
    pendingAddresses.delete(key);
    const target = { kind, address, subresource: "status" };
    await changeInternally(deps, target, (object) => withStatus(object, address));
  };
  const queue = new WorkQueue({ name, clock, logger, stop, work });
  const enqueue = (address: Address): void => {
    pendingAddresses.set(printAddress(address), address);
    queue.add(printAddress(address));
  };
  for (const { address } of store.list({ bucket: bucketOf(kind) })) enqueue(address);
  return enqueue;
}

export function startDisruptionBudgets(deps: VerbDeps, stop: AbortSignal): void {
  const { store } = deps;
  const withStatus = (budget: KubeObject, { namespace }: Address): KubeObject => {
    const pods = store.list({ bucket: PODS, namespace }).map((pod) => pod.view());
    const observedGeneration = budget.metadata.generation;
    const status = {
      ...asFields(budget["status"]),
      ...countDisruptions(budget, pods),
      observedGeneration,
    };
    return { ...budget, status };
  };
  const computed = { name: "disruption-budgets", kind: POD_DISRUPTION_BUDGET, withStatus };
  const enqueue = startStatusQueue(deps, stop, computed);
  const unsubscribe = store.subscribe((changes) => {
    for (const change of changes) affectedBudgets(deps, change).forEach(enqueue);
  });
  stop.addEventListener("abort", unsubscribe);
}

export function startQuotaStatus(deps: VerbDeps, stop: AbortSignal): void {
  const { resourceQuotas } = deps;
  const withStatus = (quota: KubeObject, address: Address): KubeObject => {
    const status = resourceQuotas.findStatus(address);
    return status === undefined ? quota : { ...quota, status };
  };
  const computed = { name: "resource-quotas", kind: RESOURCE_QUOTA, withStatus };
  resourceQuotas.onUsageChange(startStatusQueue(deps, stop, computed));
}
