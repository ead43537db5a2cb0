// SPDX-License-Identifier: Apache-2.0
export {
  createCache,
  ObjectWatches,
  type StartableCache,
  listStates,
  waitForCaches,
} from "./watch/cache.ts";
export { joinCaches } from "./watch/joined-cache.ts";
export { createKubeClient, type KubeClient, type RawRequest, type RawResponse } from "./client.ts";
export { createEventRecorder, type EventRecorder, type Note } from "./event-recorder.ts";
export type { HttpMethod } from "./connection/http.ts";
export { loadKubeConfig, type KubeConfig } from "./connection/kubeconfig.ts";
export { createElector, createFencedStore } from "./leader-election.ts";
export {
  createCachedReader,
  createMutationCache,
  type CachedKind,
  type MutationCache,
  type Reader,
} from "./watch/mutation-cache.ts";
export {
  createStepBackoff,
  type DelayedStep,
  type StepBackoff,
  type Step,
} from "./pace/step-backoff.ts";
export { createTokenBuckets, type RateLimit, type TokenBuckets } from "./pace/backoff.ts";
export {
  createQueue,
  specVersionOf,
  type Queue,
  after,
  done,
  runReconciler,
  type LostWriteReporter,
  type Next,
  type ReconcileMetrics,
} from "./work/reconciler.ts";
export { LoopWatch } from "./work/loop-watch.ts";
export {
  earliest,
  type Explanation,
  type FailedStep,
  type ObjectStepsResult,
  rethrowFirst,
  runObjectSteps,
  runSteps,
  type StepRules,
  type StepsResult,
} from "./work/run-steps.ts";
export { isLostRace, performWrite } from "./objects/object-store.ts";
export {
  keyOf,
  parseKey,
  parseTime,
  printKey,
  printMicroTime,
  printTime,
} from "./objects/object-metadata.ts";
export type { Reflection } from "./watch/reflector.ts";
