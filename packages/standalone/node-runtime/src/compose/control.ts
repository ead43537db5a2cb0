// SPDX-License-Identifier: Apache-2.0
import {
  DATA_VOLUMES,
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
  PODS,
  STORAGE_CLASSES,
} from "@patchbay/api";
import type { DaemonContext } from "@patchbay/daemon";
import {
  createCache,
  createEventRecorder,
  type EventRecorder,
  createKubeClient,
  loadKubeConfig,
  waitForCaches,
  type KubeClient,
  type LoopWatch,
} from "@patchbay/kube";
import type { Files } from "@patchbay/core/interfaces";
import { KeyedMutex } from "@patchbay/base";
import { runBinder } from "../schedule/binder.ts";
import {
  runClaimController,
  type ClaimDeps,
  type ClaimMachine,
  type StorageCaches,
} from "../claims/index.ts";
import type { Flags } from "../config.ts";
import { FILLS_LABEL } from "../data-volumes/filler-pod.ts";
import { runDataVolumeController } from "../data-volumes/reconcile-data-volumes.ts";

type WatchedClaims = ClaimMachine & Pick<ClaimDeps, "watches">;

async function startStorage(
  client: KubeClient,
  { log, signal }: DaemonContext,
): Promise<StorageCaches> {
  const options = { logger: log };
  const claims = createCache(client.reflect(PERSISTENT_VOLUME_CLAIMS), options);
  const volumes = createCache(client.reflect(PERSISTENT_VOLUMES), options);
  const classes = createCache(client.reflect(STORAGE_CLASSES), options);
  for (const cache of [claims, volumes, classes]) cache.start(signal);
  await waitForCaches([claims, volumes, classes], signal);
  return { claims, volumes, classes };
}

/** Runs the DataVolume controller with its own caches, so that a missing DataVolume CRD does not block other loops. */
async function fillClaims(
  client: KubeClient,
  { clock, log, signal }: DaemonContext,
  sharedDeps: Pick<StorageCaches, "claims"> & { readonly recorder: EventRecorder },
): Promise<void> {
  const options = { logger: log };
  const dataVolumes = createCache(client.reflect(DATA_VOLUMES), options);
  const pods = createCache(client.reflect(PODS, { labelSelector: FILLS_LABEL }), options);
  for (const cache of [dataVolumes, pods]) cache.start(signal);
  await waitForCaches([dataVolumes, pods], signal);
  if (signal.aborted) return;
  const deps = { ...sharedDeps, store: client.store, clock, log, dataVolumes, pods };
  await runDataVolumeController(deps, signal);
}

async function runControlLoops(
  client: KubeClient,
  context: DaemonContext,
  options: {
    readonly nodeName: string;
    readonly watch: LoopWatch;
    readonly claims?: WatchedClaims;
  },
): Promise<void> {
  const { clock, log, signal } = context;
  const { claims: machine, nodeName, watch } = options;
  const storage = await startStorage(client, context);
  if (signal.aborted) return;
  const { store } = client;
  const component = { component: "binder", host: nodeName };
  const recorder = createEventRecorder({ store, clock, logger: log, ...component });
  const binder = { client, clock, log, recorder, nodeName, storage, watch };
  const loops = [runBinder(binder, signal)];
  if (machine !== undefined) {
    const deps = {
      ...machine,
      ...storage,
      store,
      clock,
      log,
      recorder,
      nodeName,
      mutex: new KeyedMutex(),
    };
    loops.push(runClaimController(deps, signal), fillClaims(client, context, deps));
  }
  await Promise.all(loops);
}

function watchClaims(
  claims: ClaimMachine | undefined,
  { health }: DaemonContext,
): { readonly claims?: WatchedClaims } {
  if (claims === undefined) return {};
  const watches = { claim: health.watchLoop("claim"), volume: health.watchLoop("volume") };
  return { claims: { ...claims, watches } };
}

export async function openClient(
  { clock, log, metrics }: Pick<DaemonContext, "clock" | "log" | "metrics">,
  component: string,
  kubeconfig: string | undefined,
): Promise<KubeClient> {
  const config = await loadKubeConfig(kubeconfig === undefined ? {} : { kubeconfig });
  return createKubeClient(config, {
    logger: log,
    clock,
    component,
    onRequest: (request) => {
      metrics.countApiRequest(request);
    },
  });
}

/** Runs the control-plane loops with the binder's account, because a node's account cannot bind pods. */
export async function controlNode(
  context: DaemonContext,
  machine: { readonly files: Files; readonly claims?: ClaimMachine },
  { binderKubeconfig: kubeconfig, nodeName }: Flags,
): Promise<void> {
  if (kubeconfig === undefined) return;
  const { files, claims } = machine;
  const watch = context.health.watchLoop("binder");
  const controlOptions = { nodeName, watch, ...watchClaims(claims, context) };
  if (claims !== undefined) await files.ensureDirectory(claims.claimsDir, 0o700);
  const client = await openClient(context, "binder", kubeconfig);
  try {
    await runControlLoops(client, context, controlOptions);
  } finally {
    await client.close();
  }
}
