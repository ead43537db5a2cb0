// SPDX-License-Identifier: Apache-2.0
// Maintains the status of PodDisruptionBudgets. Source: Kubernetes disruption controller.
import { bucketOf } from "../kinds/kind.ts";
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

export function startDisruptionBudgets(deps: VerbDeps, stop: AbortSignal): void {
  const { clock, logger, store } = deps;
  const pendingAddresses = new Map<string, Address>();
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
  const work = async (key: string): Promise<void> => {
    const address = pendingAddresses.get(key);
    if (address === undefined) return;
    pendingAddresses.delete(key);
    const target = { kind: POD_DISRUPTION_BUDGET, address, subresource: "status" };
    await changeInternally(deps, target, (budget) => withStatus(budget, address));
  };
  const queue = new WorkQueue({ name: "disruption-budgets", clock, logger, stop, work });
  const enqueue = (address: Address): void => {
    pendingAddresses.set(printAddress(address), address);
    queue.add(printAddress(address));
  };
  const unsubscribe = store.subscribe((changes) => {
    for (const change of changes) affectedBudgets(deps, change).forEach(enqueue);
  });
  stop.addEventListener("abort", unsubscribe);
  for (const { address } of store.list({ bucket: BUDGETS })) enqueue(address);
}
