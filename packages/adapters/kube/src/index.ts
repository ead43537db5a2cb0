// SPDX-License-Identifier: Apache-2.0
// The public door of kube.
export { createCache, type StartableCache } from "./watch/cache.ts";
export { joinCaches } from "./watch/joined-cache.ts";
export { createKubeClient, type KubeClient, type RawRequest, type RawResponse } from "./client.ts";
export { createEventRecorder, type EventRecorder, type Note } from "./event-recorder.ts";
export type { HttpMethod } from "./connection/http.ts";
export { loadKubeConfig, type KubeConfig } from "./connection/kubeconfig.ts";
export { createElector } from "./leader/elector.ts";
export { fencedStore } from "./leader/fenced-store.ts";
export { createNearReader, type Known, type Reader } from "./watch/near-reader.ts";
export { createOwnWrites, type OwnWrites } from "./watch/own-writes.ts";
export { createPauses, type Held, type Pauses, type Step } from "./pace/pauses.ts";
export { createTokenBuckets, type Allowance, type TokenBuckets } from "./pace/token-buckets.ts";
export { createQueue, specVersionOf, type Queue } from "./work/queue.ts";
export { LoopWatch } from "./work/loop-watch.ts";
export {
  after,
  done,
  runReconciler,
  type LostWriteTeller,
  type Next,
  type ReconcileMetrics,
} from "./work/reconciler.ts";
export {
  earliest,
  firstErrorOf,
  runSteps,
  type Explanation,
  type FailedStep,
  type StepRules,
  type StepsResult,
} from "./work/run-steps.ts";
export { isLostRace } from "./objects/lost-writes.ts";
export { performWrite } from "./objects/perform-write.ts";
export { parseTime, printMicroTime, printTime } from "./objects/time.ts";
export type { Reflection } from "./watch/reflector.ts";
export { statesOf } from "./watch/states-of.ts";
export { keyOf, parseKey, printKey } from "./objects/resource-path.ts";
export { waitForCaches } from "./watch/wait-for-caches.ts";
