// SPDX-License-Identifier: Apache-2.0
// Fills the claims of DataVolumes, as KubeVirt's CDI does in a cluster.
import { DATA_VOLUMES, PERSISTENT_VOLUME_CLAIMS, PODS, type DataVolume } from "@patchbay/api";
import { isPodFinished, type PersistentVolumeClaim, type Pod } from "@patchbay/api/kubernetes";
import { isAppError, type Clock, type Logger } from "@patchbay/base";
import { readDataVolume } from "@patchbay/core/vm";
import {
  after,
  createQueue,
  done,
  keyOf,
  parseKey,
  printKey,
  printTime,
  runReconciler,
  type EventRecorder,
  type LoopWatch,
  type Next,
} from "@patchbay/kube";
import type { Cache, Store } from "@patchbay/core/interfaces";
import { listClaimNames } from "../claims/index.ts";
import { buildFillerPodName } from "./filler-pod.ts";
import { planDataVolume, type DataVolumeAction, type DataVolumeFacts } from "./plan.ts";

const CONCURRENCY = 2;

export interface DataVolumeDeps {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Logger;
  readonly recorder: EventRecorder;
  readonly dataVolumes: Cache<DataVolume>;
  readonly claims: Cache<PersistentVolumeClaim>;
  readonly pods: Cache<Pod>;
  readonly watch?: LoopWatch;
}

async function findPodsUsingClaim(
  { store }: DataVolumeDeps,
  namespace: string,
  claimName: string,
): Promise<readonly string[]> {
  const { items } = await store.list(PODS, { namespace });
  return items
    .filter((pod) => !isPodFinished(pod) && listClaimNames(pod).includes(claimName))
    .map(({ metadata }) => metadata.name);
}

async function observe(deps: DataVolumeDeps, dataVolume: DataVolume): Promise<DataVolumeFacts> {
  const { claims, pods, clock } = deps;
  const { namespace = "" } = dataVolume.metadata;
  const pod = pods.find({ namespace, name: buildFillerPodName(dataVolume) });
  const parsed = readDataVolume(dataVolume.spec, namespace);
  const source = "order" in parsed ? parsed.order.source : undefined;
  const name = source?.kind === "pvc" ? source.claimName : undefined;
  return {
    dataVolume,
    pod,
    now: printTime(clock.now()),
    claim: claims.find(keyOf(dataVolume)),
    sourceClaim: name === undefined ? undefined : claims.find({ namespace, name }),
    sourceUsers:
      name === undefined || pod !== undefined
        ? []
        : await findPodsUsingClaim(deps, namespace, name),
  };
}

async function createIfMissing(creation: Promise<unknown>): Promise<void> {
  try {
    await creation;
  } catch (error) {
    if (!isAppError(error, "KUBE_ALREADY_EXISTS")) throw error;
  }
}

async function executeAction(
  deps: DataVolumeDeps,
  dataVolume: DataVolume,
  action: DataVolumeAction,
): Promise<void> {
  const { store, log, recorder } = deps;
  switch (action.kind) {
    case "createClaim":
      return createIfMissing(store.create(PERSISTENT_VOLUME_CLAIMS, action.claim));
    case "createPod":
      await createIfMissing(store.create(PODS, action.pod));
      log.info("filling a claim", { object: printKey(keyOf(dataVolume)) });
      return;
    case "deletePod":
      return store.delete(PODS, keyOf(action.pod), { uid: action.pod.metadata.uid ?? "" });
    case "reportClaim": {
      const { annotations, claim } = action;
      const { resourceVersion } = claim.metadata;
      const fields = { metadata: { annotations, resourceVersion } };
      await store.patch(PERSISTENT_VOLUME_CLAIMS, keyOf(claim), { type: "merge", fields });
      return;
    }
    case "reportStatus": {
      const fields = { status: action.status };
      const patch = { type: "merge", fields } as const;
      await store.patch(DATA_VOLUMES, keyOf(dataVolume), patch, { subresource: "status" });
      return;
    }
    case "note": {
      const { type, reason, message } = action;
      recorder.record(dataVolume, { type, reason, message });
    }
  }
}

export async function reconcileDataVolume(deps: DataVolumeDeps, key: string): Promise<Next> {
  const dataVolume = deps.dataVolumes.find(parseKey(key));
  if (dataVolume === undefined) return done();
  const { actions, requeueAfterMs } = planDataVolume(await observe(deps, dataVolume));
  for (const action of actions) await executeAction(deps, dataVolume, action);
  return requeueAfterMs === undefined ? done() : after(requeueAfterMs);
}

export async function runDataVolumeController(
  deps: DataVolumeDeps,
  signal: AbortSignal,
): Promise<void> {
  const { clock, log, dataVolumes, claims, pods, watch } = deps;
  const queue = createQueue({ clock, concurrency: CONCURRENCY });
  const wake = (object: DataVolume | PersistentVolumeClaim): void => {
    queue.add(printKey(keyOf(object)));
  };
  const subscriptions = [
    dataVolumes.onChange((change) => {
      wake(change.kind === "deleted" ? change.previous : change.current);
    }),
    claims.onChange((change) => {
      wake(change.kind === "deleted" ? change.previous : change.current);
    }),
    pods.onChange((change) => {
      const { metadata } = change.kind === "deleted" ? change.previous : change.current;
      const name = metadata.ownerReferences?.[0]?.name;
      if (name !== undefined) queue.add(`${metadata.namespace ?? ""}/${name}`);
    }),
  ];
  for (const dataVolume of dataVolumes.list()) wake(dataVolume);
  try {
    const reconcile = (key: string): Promise<Next> => reconcileDataVolume(deps, key);
    const loop = { name: "data-volume", queue, clock, log, reconcile };
    await runReconciler({ ...loop, ...(watch !== undefined && { watch }) }, signal);
  } finally {
    for (const unsubscribe of subscriptions) unsubscribe();
  }
}
