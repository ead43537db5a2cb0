// SPDX-License-Identifier: Apache-2.0
// Brings the adapters together and starts the loops. No decisions.
import { dirname, resolve } from "node:path";
import { PODS, type Pod } from "@patchbay/api";
import { createCni } from "@patchbay/cni";
import { AppError } from "@patchbay/core";
import type { DaemonContext } from "@patchbay/daemon";
import { createCache, createQueue, runReconciler, type Queue } from "@patchbay/kube";
import { createFiles, createNamespaces, createProcessRunner } from "@patchbay/os";
import type { Cache, Files } from "@patchbay/ports";
import { createMetrics } from "@patchbay/telemetry";
import { runBinder } from "./binder.ts";
import { LIBEXEC_DIR, type Flags } from "./config.ts";
import { BY_UID, type Deps, type Directories } from "./deps.ts";
import { keepLauncherImage } from "./images.ts";
import { readHostIp, registerNode } from "./node-object.ts";
import { createProcessEnds } from "./process-ends.ts";
import { reconcilePod } from "./reconcilers/pod/index.ts";

/** How many pods are worked on at once. */
const CONCURRENCY = 8;

async function readBootId(files: Files): Promise<string> {
  const path = "/proc/sys/kernel/random/boot_id";
  const text = await files.readText(path);
  if (text !== undefined) return text.trim();
  throw new AppError("OS_FILE_FAILED", { call: "read", path, reason: "it is not there" });
}

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

function aborted(signal: AbortSignal): Promise<void> {
  const { promise, resolve: end } = Promise.withResolvers<undefined>();
  const stop = (): void => {
    end(undefined);
  };
  if (signal.aborted) stop();
  signal.addEventListener("abort", stop, { once: true });
  return promise;
}

/** Runs the loops until the signal is aborted; pods go on running. */
export async function runNode(context: DaemonContext, flags: Flags): Promise<void> {
  const { client, clock, log, signal } = context;
  const { nodeName } = flags;
  const files = createFiles();
  const runner = createProcessRunner();
  const queue = createQueue({ clock, concurrency: CONCURRENCY });
  const wake = (uid: string): void => {
    queue.add(uid);
  };
  const hostIp = await readHostIp(runner);
  await registerNode({ store: client.store, files, runner, clock }, nodeName, hostIp);
  const deps: Deps = {
    ...{ files, runner, clock, log, hostIp, store: client.store },
    pods: startPods(context, nodeName),
    namespaces: createNamespaces(),
    cni: createCni({ runner, binDirs: flags.cniBinDir }),
    ends: createProcessEnds({ files, log, wake }, signal),
    directories: await makeDirectories(files, flags),
    bootId: await readBootId(files),
  };
  await Promise.race([deps.pods.synced(), aborted(signal)]);
  if (signal.aborted) return;
  deps.pods.onChange((change) => {
    wake(uidOf(change.kind === "deleted" ? change.previous : change.current));
  });
  await wakeAll(deps, queue);
  const wakePods = (): void => {
    for (const pod of deps.pods.list()) wake(uidOf(pod)); // one may wait for this image
  };
  files.watchDirectory(deps.directories.images, wakePods, signal);
  context.ready();
  const reconcile = (uid: string): ReturnType<typeof reconcilePod> => reconcilePod(uid, deps);
  const pods = { name: "pod", queue, reconcile, log, clock, metrics: createMetrics() };
  await Promise.all([
    runReconciler(pods, signal),
    runBinder({ client, clock, log, nodeName }, signal),
  ]);
}
