// SPDX-License-Identifier: Apache-2.0
// Brings the adapters together and starts the loops. No decisions.
import { dirname, resolve } from "node:path";
import { NODES, PODS, type KubeNode, type Pod } from "@patchbay/api";
import { createCni } from "@patchbay/cni";
import type { DaemonContext } from "@patchbay/daemon";
import {
  createCache,
  createKubeClient,
  createQueue,
  loadKubeConfig,
  runReconciler,
  waitForCaches,
  type Queue,
} from "@patchbay/kube";
import { createFiles, createNamespaces, createProcessRunner } from "@patchbay/os";
import type { Cache, Files } from "@patchbay/ports";
import { createMetrics } from "@patchbay/telemetry";
import { runBinder } from "./binder.ts";
import { architecture, LIBEXEC_DIR, type Flags } from "./config.ts";
import { BY_UID, type Deps, type Directories } from "./deps.ts";
import { keepLauncherImage } from "./images.ts";
import { beat, keepNode, type NodeDeps } from "./node/keep-node.ts";
import { readIdentity } from "./node/machine.ts";
import { createProcessEnds } from "./process-ends.ts";
import { reconcilePod } from "./reconcilers/pod/index.ts";

/** How many pods are worked on at once. */
const CONCURRENCY = 8;

function uidOf(pod: Pod): string {
  return pod.metadata.uid ?? "";
}

function startPods({ client, log, signal }: DaemonContext, nodeName: string): Cache<Pod> {
  const pods = createCache(client.reflect(PODS, { fieldSelector: `spec.nodeName=${nodeName}` }), {
    indexes: { [BY_UID]: (pod) => [uidOf(pod)] },
    logger: log,
  });
  pods.start(signal);
  return pods;
}

/** Wakes every pod that is there and every one that has left something behind. */
async function wakeAll(deps: Deps, queue: Queue): Promise<void> {
  const left = await deps.files.list(`${deps.directories.state}/pods`);
  for (const uid of [...left, ...deps.pods.list().map(uidOf)]) queue.add(uid);
}

async function makeDirectories(files: Files, flags: Flags): Promise<Directories> {
  const directories: Directories = {
    pods: resolve(flags.podsDir),
    images: resolve(flags.imagesDir),
    state: resolve(flags.stateDir),
    cniConf: resolve(flags.cniConfDir),
    libexec: LIBEXEC_DIR,
  };
  await files.ensureDirectory(directories.pods);
  await files.ensureDirectory(directories.state, 0o700);
  const hidden = [directories.pods, directories.images, directories.state].map(dirname);
  const launcher = resolve(flags.launcher);
  await keepLauncherImage(files, directories.images, { launcher, hidden });
  return directories;
}

/** The node, registered and with a lease, and its cache. */
async function startNode(
  { client, clock, log, signal }: DaemonContext,
  deps: Pick<NodeDeps, "files" | "identity"> & { readonly directories: Directories },
  nodeName: string,
): Promise<{ readonly node: NodeDeps; readonly nodes: Cache<KubeNode> }> {
  const { files, identity, directories } = deps;
  const itself = client.reflect(NODES, { fieldSelector: `metadata.name=${nodeName}` });
  const nodes = createCache(itself, { logger: log });
  nodes.start(signal);
  const node: NodeDeps = {
    ...{ store: client.store, files, clock, log, nodeName, identity },
    podsDir: directories.pods,
    cniConfDir: directories.cniConf,
  };
  await waitForCaches([nodes], signal);
  if (!signal.aborted) await beat(node, nodes.find({ name: nodeName }));
  return { node, nodes };
}

/** Binds with an account of its own: a node's may not. Without one somebody else binds. */
async function bindPods(context: DaemonContext, flags: Flags): Promise<void> {
  const { clock, log, signal } = context;
  const { binderKubeconfig: kubeconfig, nodeName } = flags;
  if (kubeconfig === undefined) return;
  const client = createKubeClient(await loadKubeConfig({ kubeconfig }), { logger: log, clock });
  try {
    await runBinder({ client, clock, log, nodeName }, signal);
  } finally {
    await client.close();
  }
}

/** Runs the loops until the signal is aborted; pods go on running. */
export async function runNode(context: DaemonContext, flags: Flags): Promise<void> {
  const { client, clock, log, signal } = context;
  const files = createFiles();
  const runner = createProcessRunner();
  const family = `node-runtime:${flags.stateDir}`;
  await runner.endFamily(family); // of a process that died
  const queue = createQueue({ clock, concurrency: CONCURRENCY });
  const wake = (uid: string): void => {
    queue.add(uid);
  };
  const directories = await makeDirectories(files, flags);
  const identity = await readIdentity({ files, runner }, architecture());
  const { node, nodes } = await startNode(
    context,
    { files, identity, directories },
    flags.nodeName,
  );
  const { hostIp, bootId } = identity;
  const deps: Deps = {
    ...{ files, runner, clock, log, hostIp, bootId, directories, store: client.store },
    pods: startPods(context, flags.nodeName),
    namespaces: createNamespaces(),
    cni: createCni({ runner, binDirs: flags.cniBinDir, family }),
    ends: createProcessEnds({ files, log, wake }, signal),
  };
  await waitForCaches([deps.pods], signal);
  if (signal.aborted) return;
  deps.pods.onChange((change) => {
    wake(uidOf(change.kind === "deleted" ? change.previous : change.current));
  });
  await wakeAll(deps, queue);
  const wakePods = (): void => {
    for (const pod of deps.pods.list()) wake(uidOf(pod)); // one may wait for this image
  };
  files.watchDirectory(directories.images, wakePods, signal);
  context.ready();
  const reconcile = (uid: string): ReturnType<typeof reconcilePod> => reconcilePod(uid, deps);
  const pods = { name: "pod", queue, reconcile, log, clock, metrics: createMetrics() };
  await Promise.all([
    runReconciler(pods, signal),
    keepNode(node, nodes, signal),
    bindPods(context, flags),
  ]);
}
