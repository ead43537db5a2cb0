// SPDX-License-Identifier: Apache-2.0
// The public door of kube.
export { createCache, type CacheOptions, type StartableCache } from "./watch/cache.ts";
export {
  createKubeClient,
  type ClientDeps,
  type KubeClient,
  type RawRequest,
  type RawResponse,
} from "./client.ts";
export {
  createEventRecorder,
  type EventRecorder,
  type Note,
  type RecorderDeps,
} from "./event-recorder.ts";
export {
  loadKubeConfig,
  type Credentials,
  type KubeConfig,
  type KubeConfigSource,
} from "./connection/kubeconfig.ts";
export { createOwnWrites, type OwnWrites } from "./watch/own-writes.ts";
export {
  createPauses,
  type Failure,
  type Held,
  type Pauses,
  type PauseOptions,
  type Step,
} from "./pace/pauses.ts";
export type { BackoffRange } from "./pace/backoff.ts";
export { createTokenBuckets } from "./pace/token-buckets.ts";
export { createQueue, wishOf, type Queue, type QueueOptions } from "./work/queue.ts";
export {
  after,
  done,
  runReconciler,
  type Next,
  type Reconciler,
  type ReconcileMetrics,
} from "./work/reconciler.ts";
export { printMicroTime, printTime } from "./objects/time.ts";
export type { Reflection, Selection } from "./watch/reflector.ts";
export { keyOf, parseKey, printKey } from "./objects/resource-path.ts";
