// SPDX-License-Identifier: Apache-2.0
// Brings caches, queues and loops together.
import { createHash, randomBytes } from "node:crypto";
import {
  controllerOf,
  KUBEVIRTS,
  names,
  PERSISTENT_VOLUME_CLAIMS,
  PODS,
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  type KubeObject,
  type KubeVirt,
  type PersistentVolumeClaim,
  type Pod,
  type VirtualMachine,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { claimNamesOf, vmVnicFamily } from "@patchbay/core";
import type { DaemonContext } from "@patchbay/daemon";
import {
  createCache,
  createEventRecorder,
  createOwnWrites,
  createPauses,
  createQueue,
  keyOf,
  parseKey,
  printKey,
  runReconciler,
  wishOf,
  type Next,
  type Queue,
  type StartableCache,
} from "@patchbay/kube";
import type { Cache, Change } from "@patchbay/ports";
import type { Flags } from "./config.ts";
import type { Deps } from "./deps.ts";
import { createImageVolumes } from "./image-volumes.ts";
import { reconcileVm } from "./reconcilers/vm/index.ts";
import { reconcileVmi } from "./reconcilers/vmi/index.ts";

/** The caches of this program. */
interface Caches {
  readonly vms: StartableCache<VirtualMachine>;
  readonly vmis: StartableCache<VirtualMachineInstance>;
  readonly kubevirts: StartableCache<KubeVirt>;
  readonly pods: StartableCache<Pod>;
  readonly claims: StartableCache<PersistentVolumeClaim>;
}

/** A launcher pod wakes the VMI that it says it was made for; the pass judges whether that is so. */
function vmiKeyOf(pod: Pod): string | undefined {
  const owner = controllerOf(pod);
  if (owner?.kind !== VIRTUAL_MACHINE_INSTANCES.kind) return undefined;
  return printKey({ namespace: pod.metadata.namespace ?? "", name: owner.name });
}

function ownKeyOf(object: KubeObject): string {
  return printKey(keyOf(object));
}

/** Queues what a change is about. */
function wake<T extends KubeObject>(
  cache: Cache<T>,
  queue: Queue,
  toKey: (object: T) => string | undefined,
): void {
  cache.onChange((change: Change<T>) => {
    const key = toKey(change.kind === "deleted" ? change.previous : change.current);
    if (key !== undefined) queue.add(key);
  });
}

/** A claim wakes the VMIs whose disks are on it. */
function wakeUsers({ claims, vmis }: Caches, queue: Queue): void {
  claims.onChange((change) => {
    const { metadata } = change.kind === "deleted" ? change.previous : change.current;
    for (const vmi of vmis.list()) {
      const isUser =
        vmi.metadata.namespace === metadata.namespace && claimNamesOf(vmi).includes(metadata.name);
      if (isUser) queue.add(ownKeyOf(vmi));
    }
  });
}

/** Of an object that is gone nothing is remembered. */
function forgetDeleted<T extends KubeObject>(cache: Cache<T>, { pauses }: Deps): void {
  cache.onChange((change: Change<T>) => {
    if (change.kind === "deleted") pauses.forget(change.previous.metadata.uid ?? "");
  });
}

/** A change of the cluster's configuration concerns every VM and VMI. */
function wakeAll(deps: Deps, queues: { readonly vm: Queue; readonly vmi: Queue }): void {
  deps.kubevirts.onChange(() => {
    for (const vm of deps.vms.list()) queues.vm.add(ownKeyOf(vm));
    for (const vmi of deps.vmis.list()) queues.vmi.add(ownKeyOf(vmi));
  });
}

function createCaches({ client, log }: DaemonContext): Caches {
  // Only spares memory: whose launcher a pod is, its owner says.
  const labelSelector = `${names.KUBEVIRT_LABEL}=${names.LAUNCHER_LABEL_VALUE}`;
  const logger = log;
  return {
    vms: createCache(client.reflect(VIRTUAL_MACHINES), { logger }),
    vmis: createCache(client.reflect(VIRTUAL_MACHINE_INSTANCES), { logger }),
    kubevirts: createCache(client.reflect(KUBEVIRTS), { logger }),
    pods: createCache(client.reflect(PODS, { labelSelector }), { logger }),
    claims: createCache(client.reflect(PERSISTENT_VOLUME_CLAIMS), { logger }),
  };
}

async function startCaches(caches: Caches, signal: AbortSignal): Promise<void> {
  const all = [caches.vms, caches.vmis, caches.kubevirts, caches.pods, caches.claims];
  for (const cache of all) cache.start(signal);
  await Promise.all(all.map((cache) => cache.synced()));
}

function createDeps(context: DaemonContext, caches: Caches, flags: Flags): Deps {
  const { client, clock, log } = context;
  const component = "virt-controller";
  return {
    ...caches,
    store: client.store,
    ownWrites: createOwnWrites(),
    pauses: createPauses({ clock }),
    events: createEventRecorder({ store: client.store, clock, logger: log, component }),
    clock,
    log,
    sha256Hex: (text) => createHash("sha256").update(text).digest("hex"),
    randomBytes,
    launcherImage: flags.launcherImage,
    imageVolumes: createImageVolumes({ store: client.store, log }),
  };
}

/** Runs both loops until the signal is aborted. */
export async function runController(context: DaemonContext, flags: Flags): Promise<void> {
  const { clock, log, metrics, signal } = context;
  const caches = createCaches(context);
  const deps = createDeps(context, caches, flags);
  const { concurrency } = flags;
  const vmOf = (key: string): string => wishOf(caches.vms.find(parseKey(key)));
  const vmiOf = (key: string): string => wishOf(caches.vmis.find(parseKey(key)));
  const vmQueue = createQueue({ clock, concurrency, circumstancesOf: vmOf });
  const vmiQueue = createQueue({ clock, concurrency, circumstancesOf: vmiOf });
  wake(caches.vms, vmQueue, ownKeyOf);
  wake(caches.vmis, vmQueue, ownKeyOf);
  wake(caches.vmis, vmiQueue, ownKeyOf);
  wake(caches.pods, vmiQueue, vmiKeyOf);
  wakeUsers(caches, vmiQueue);
  wakeAll(deps, { vm: vmQueue, vmi: vmiQueue });
  forgetDeleted(caches.vms, deps);
  forgetDeleted(caches.vmis, deps);
  await startCaches(caches, signal);
  context.ready();
  metrics.addSource(() => Promise.resolve([vmVnicFamily(caches.vms.list())]));
  const shared = { log, clock, metrics };
  const reconcileOneVm = (key: string): Promise<Next> => reconcileVm(key, deps);
  const reconcileOneVmi = (key: string): Promise<Next> => reconcileVmi(key, deps);
  await Promise.all([
    runReconciler({ name: "vm", queue: vmQueue, reconcile: reconcileOneVm, ...shared }, signal),
    runReconciler({ name: "vmi", queue: vmiQueue, reconcile: reconcileOneVmi, ...shared }, signal),
  ]);
  await deps.events.flush();
}
