// SPDX-License-Identifier: Apache-2.0
// The public door of kube.
export { createCache, type CacheOptions, type StartableCache } from "./cache.ts";
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
} from "./kubeconfig.ts";
export { createOwnWrites, type OwnWrites } from "./own-writes.ts";
export {
  createPauses,
  type Failure,
  type Held,
  type Pauses,
  type PauseOptions,
  type Step,
} from "./pauses.ts";
export type { BackoffRange } from "./backoff.ts";
export { createTokenBuckets } from "./token-buckets.ts";
export { createQueue, wishOf, type Queue, type QueueOptions } from "./queue.ts";
export {
  after,
  done,
  runReconciler,
  type Next,
  type Reconciler,
  type ReconcileMetrics,
} from "./reconciler.ts";
export { printMicroTime, printTime } from "./time.ts";
export type { Reflection, Selection } from "./reflector.ts";
export { keyOf, parseKey, printKey } from "./resource-path.ts";
