// SPDX-License-Identifier: Apache-2.0
// Brings the adapters together and starts the loop. No decisions.
import {
  NETWORK_ATTACHMENT_DEFINITIONS,
  PODS,
  type NetworkAttachmentDefinition,
  type Pod,
} from "@patchbay/api";
import { createCni, createJournal, createResultCache } from "@patchbay/cni";
import { openSandboxes } from "@patchbay/cri";
import type { DaemonContext } from "@patchbay/daemon";
import { createCache, createEventRecorder, waitForCaches } from "@patchbay/kube";
import {
  createFiles,
  createNamespaces,
  createNetlink,
  createProcessRunner,
  readBootId,
  readNetnsInode,
} from "@patchbay/os";
import { createPodNetwork } from "@patchbay/podnet";
import type { Cache, Files } from "@patchbay/core/ports";
import { policyOf, type Flags } from "./config.ts";
import { holdState } from "./hold-state.ts";
import { listOwnBridges } from "./own-bridges.ts";
import { runLoop, type LoopParts } from "./loop.ts";
import { BY_NETWORK, networksAskedBy } from "./wake.ts";

function startCaches(
  { client, log: logger, signal }: DaemonContext,
  flags: Flags,
): { readonly pods: Cache<Pod>; readonly nads: Cache<NetworkAttachmentDefinition> } {
  const fieldSelector = `spec.nodeName=${flags.nodeName}`;
  const indexes = { [BY_NETWORK]: networksAskedBy };
  const pods = createCache(client.reflect(PODS, { fieldSelector }), { indexes, logger });
  const nads = createCache(client.reflect(NETWORK_ATTACHMENT_DEFINITIONS), { logger });
  pods.start(signal);
  nads.start(signal);
  return { pods, nads };
}

/** What others on this node remember of what they attached. */
function rememberedBy(files: Files, { cniCacheDir, multusDir }: Flags) {
  return {
    resultCache: createResultCache(files, cniCacheDir),
    multusCache: createResultCache(files, [multusDir]),
  };
}

/** Runs the loop until the signal is aborted; an operation that has begun is ended first. */
export async function runAgent(context: DaemonContext, flags: Flags): Promise<void> {
  const { client, clock, log, health, signal } = context;
  const { store } = client;
  const files = createFiles();
  const runner = createProcessRunner();
  const held = await holdState(flags.stateDir, { files, clock, log }, signal);
  if (held === undefined) return;
  const family = `net-agent:${flags.stateDir}`;
  // What plugins of a process that died have started would go on beside ours, and take addresses that we have freed.
  await runner.endFamily(family);
  const namespaces = createNamespaces();
  const journal = createJournal(files, `${flags.stateDir}/journal`);
  const events = createEventRecorder({
    ...{ store, clock, logger: log },
    ...{ component: "net-agent", host: flags.nodeName },
  });
  const caches = startCaches(context, flags);
  const node = openSandboxes(
    { endpoints: flags.criEndpoint, hostProcess: flags.hostProcess, namespaces, clock, log },
    signal,
  );
  health.addCheck(() => node.findProblem());
  const podNetwork = createPodNetwork({ runner, netlink: createNetlink() });
  const parts: LoopParts = {
    ...{ store, ...caches, namespaces, journal, events, clock, log },
    sandboxes: node.sandboxes,
    podNetwork,
    policy: policyOf(flags),
    listOwnBridges: () => listOwnBridges(flags.hostProcess ?? "self", { namespaces, podNetwork }),
    cni: createCni({
      ...{ runner, binDirs: flags.cniBinDir, family },
      ...(flags.hostProcess !== undefined && { hostProcess: flags.hostProcess }),
    }),
    ...rememberedBy(files, flags),
    bootId: await readBootId(files),
    hostNetnsInode: readNetnsInode(flags.hostProcess),
    isIsolated: flags.namespaceIsolation,
    mode: flags.mode,
    metrics: context.metrics,
    watch: health.watchLoop("pod"),
    concurrency: flags.concurrency,
  };
  await waitForCaches([caches.pods, caches.nads], signal);
  void node.answered.then(() => {
    if (!signal.aborted) context.ready();
  });
  await runLoop(parts, signal);
  await events.flush();
  node.close();
  held.release();
}
