// SPDX-License-Identifier: Apache-2.0
// Brings the adapters together and starts the loop. No decisions.
import {
  NETWORK_ATTACHMENT_DEFINITIONS,
  names,
  parseNetworks,
  PODS,
  type NetworkAttachmentDefinition,
  type Pod,
} from "@patchbay/api";
import { createCni, createJournal, createNodeRuntimeSandboxes } from "@patchbay/cni";
import { AppError } from "@patchbay/core";
import {
  createCache,
  createEventRecorder,
  createKubeClient,
  createQueue,
  keyOf,
  loadKubeConfig,
  printKey,
  runReconciler,
  type KubeClient,
  type Queue,
} from "@patchbay/kube";
import { createClock, createFiles, createNamespaces, createProcessRunner } from "@patchbay/os";
import { createPodNetwork } from "@patchbay/podnet";
import type { Cache, Files, Logger, Namespaces } from "@patchbay/ports";
import type { Config } from "./config.ts";
import type { Deps } from "./deps.ts";
import { reconcilePod } from "./reconcilers/pod/index.ts";
import { loadTrackedPods } from "./tracked-pods.ts";

/** Pods by the networks that they ask for, as NAMESPACE/NAME. */
const BY_NETWORK = "network";

function networksAskedBy(pod: Pod): readonly string[] {
  const networks = parseNetworks(pod.metadata.annotations?.[names.NETWORKS_ANNOTATION]);
  if (!networks.ok) return [];
  const own = pod.metadata.namespace ?? "";
  return networks.elements.map(({ namespace = "", name }) => {
    return `${namespace === "" ? own : namespace}/${name}`;
  });
}

async function readBootId(files: Files): Promise<string> {
  const path = "/proc/sys/kernel/random/boot_id";
  const text = await files.readText(path);
  if (text !== undefined) return text.trim();
  throw new AppError("OS_FILE_FAILED", { call: "read", path, reason: "it is not there" });
}

function readHostNetns(namespaces: Namespaces): string {
  const path = "/proc/self/ns/net";
  const netns = namespaces.open(path);
  netns?.close();
  if (netns !== undefined) return netns.inode;
  throw new AppError("OS_FILE_FAILED", { call: "open", path, reason: "it is no namespace" });
}

/** Wakes pods: their own changes, and changes of the networks that they ask for. */
function wakePods(
  queue: Queue,
  caches: {
    readonly pods: Cache<Pod>;
    readonly nads: Cache<NetworkAttachmentDefinition>;
  },
): void {
  caches.pods.onChange((change) => {
    queue.add(printKey(keyOf(change.kind === "deleted" ? change.previous : change.current)));
  });
  caches.nads.onChange((change) => {
    const nad = change.kind === "deleted" ? change.previous : change.current;
    for (const pod of caches.pods.listBy(BY_NETWORK, printKey(keyOf(nad)))) {
      queue.add(printKey(keyOf(pod)));
    }
  });
}

function startCaches(
  client: KubeClient,
  config: Config,
  run: { readonly log: Logger; readonly signal: AbortSignal },
): { readonly pods: Cache<Pod>; readonly nads: Cache<NetworkAttachmentDefinition> } {
  const fieldSelector = `spec.nodeName=${config.nodeName}`;
  const pods = createCache(client.reflect(PODS, { fieldSelector }), {
    indexes: { [BY_NETWORK]: networksAskedBy },
    logger: run.log,
  });
  const nads = createCache(client.reflect(NETWORK_ATTACHMENT_DEFINITIONS), { logger: run.log });
  pods.start(run.signal);
  nads.start(run.signal);
  return { pods, nads };
}

function aborted(signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<undefined>();
  if (signal.aborted) resolve(undefined);
  signal.addEventListener(
    "abort",
    () => {
      resolve(undefined);
    },
    { once: true },
  );
  return promise;
}

/** Runs the agent until aborted; calls `ready` once it works. */
export async function runAgent(
  config: Config,
  log: Logger,
  run: { readonly signal: AbortSignal; readonly ready: () => void },
): Promise<void> {
  const clock = createClock();
  const files = createFiles();
  const runner = createProcessRunner();
  const namespaces = createNamespaces();
  const client = createKubeClient(await loadKubeConfig(config), { logger: log, clock });
  const { store } = client;
  const events = createEventRecorder({
    ...{ store, clock, logger: log },
    ...{ component: "net-agent", host: config.nodeName },
  });
  const queue = createQueue({ clock, concurrency: config.concurrency });
  const caches = startCaches(client, config, { log, signal: run.signal });
  const journal = createJournal(files, `${config.stateDir}/journal`);
  const deps: Deps = {
    ...{ store, ...caches, namespaces, journal, events, clock, log },
    sandboxes: createNodeRuntimeSandboxes(files, config.podsDir),
    podNetwork: createPodNetwork({ runner, clock }),
    cni: createCni({ runner, binDirs: config.cniBinDirs }),
    tracked: await loadTrackedPods(journal),
    bootId: await readBootId(files),
    hostNetnsInode: readHostNetns(namespaces),
    isIsolated: config.namespaceIsolation,
  };
  await Promise.race([caches.pods.synced(), aborted(run.signal)]);
  await Promise.race([caches.nads.synced(), aborted(run.signal)]);
  wakePods(queue, caches);
  for (const pod of caches.pods.list()) queue.add(printKey(keyOf(pod)));
  for (const key of deps.tracked.keys()) queue.add(key);
  if (!run.signal.aborted) run.ready();
  const reconcile = (key: string): ReturnType<typeof reconcilePod> => reconcilePod(key, deps);
  await runReconciler({ name: "pod", queue, reconcile, log, clock }, run.signal);
  await events.flush();
  await client.close();
}
