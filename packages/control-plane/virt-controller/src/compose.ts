// SPDX-License-Identifier: Apache-2.0
// Creates virt-controller's caches and queue, and runs its loops while this process leads.
import { randomBytes } from "node:crypto";
import {
  API_SERVICES,
  configVersionOf,
  evictionStrategyOf,
  KUBEVIRTS,
  MIGRATION_POLICIES,
  IPAM_CLAIMS,
  names,
  NETWORK_ATTACHMENT_DEFINITIONS,
  NODES,
  PERSISTENT_VOLUME_CLAIMS,
  PODS,
  RESOURCE_CLAIMS,
  VIRTUAL_MACHINE_INSTANCE_MIGRATIONS,
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  type IpamClaim,
  type KubeVirt,
  type MigrationPolicy,
  type NetworkAttachmentDefinition,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VirtualMachineInstanceMigration,
} from "@patchbay/api";
import {
  findController,
  type KubeNode,
  type KubeObject,
  type PersistentVolumeClaim,
  type Pod,
  type ResourceClaim,
} from "@patchbay/api/kubernetes";
import {
  findIpamClaimOwner,
  findPodNetwork,
  isPrimaryNetwork,
  listClaimNames,
  listNetworkNames,
  trimLauncher,
  trimStoredVm,
  trimStoredVmi,
  withTrimmedAnnotations,
} from "@patchbay/core/vm";
import { isEqual, KeyedMutex, type Clock } from "@patchbay/base";
import { VERSION } from "@patchbay/base/version";
import { isNodeUnresponsive, isSchedulable, trimDefinition, trimNode } from "@patchbay/core/node";
import { listMacs } from "@patchbay/core/nics";
import {
  createPhaseRecorder,
  migrationFamilies,
  observeMigrationPhase,
  observeVmiPhase,
  vmiAddressFamily,
  vmiInfoFamily,
  vmVnicFamily,
  type MetricFamily,
} from "@patchbay/core/metrics";
import { openMigration } from "@patchbay/core/migration";

import type { DaemonContext } from "@patchbay/daemon";
import {
  createCache,
  createEventRecorder,
  createCachedReader,
  createMutationCache,
  createStepBackoff,
  createQueue,
  keyOf,
  parseKey,
  printKey,
  runReconciler,
  waitForCaches,
  specVersionOf,
  ObjectWatches,
  type LostWriteReporter,
  type Next,
  type Queue,
  type StartableCache,
} from "@patchbay/kube";
import type { Cache, Change, ObjectKey } from "@patchbay/core/interfaces";
import type { Flags } from "./config.ts";
import type { Deps } from "./deps.ts";
import { createImageVolumes } from "./image-volumes.ts";
import {
  createInstancetypeCaches,
  listCachedInstancetypeKinds,
  listInstancetypeCaches,
  onInstancetypeChange,
  findMissingInstancetypes,
  type InstancetypeCaches,
} from "./instancetype-caches.ts";
import { createLeadership, leadingFamily, type Leadership } from "./leadership.ts";
import { BY_OWNER, BY_PRIMARY } from "./reconcilers/ipam-claims.ts";
import { reconcile, reconcileInstallation } from "./reconcilers/index.ts";
import { BY_MAC } from "./reconcilers/vm/create-vmi.ts";
import { createDeferrals } from "./reconcilers/vm/deferrals.ts";
import { BY_NETWORK } from "./services/caches.ts";
import { createMigrationCache, enqueueMigratingVmis } from "./migrations.ts";
import { createServicesLoop } from "./services/loop.ts";

/** Maximum delay of a VM's status write while NICs are plugged or unplugged, in milliseconds. */
const STATUS_MAX_DELAY_MS = 30_000;

const BY_NODE = "node";
/** Index of VMs by the keys that {@link findMissingInstancetypes} returns. */
const BY_INSTANCETYPE = "instancetype";

interface Caches {
  readonly vms: StartableCache<VirtualMachine>;
  readonly vmis: StartableCache<VirtualMachineInstance>;
  readonly migrations: StartableCache<VirtualMachineInstanceMigration>;
  readonly policies: StartableCache<MigrationPolicy>;
  readonly kubevirts: StartableCache<KubeVirt>;
  readonly pods: StartableCache<Pod>;
  readonly claims: StartableCache<PersistentVolumeClaim>;
  readonly nodes: StartableCache<KubeNode>;
  readonly nads: StartableCache<NetworkAttachmentDefinition>;
  readonly ipamClaims: StartableCache<IpamClaim>;
  readonly instancetypes: InstancetypeCaches;
}

/** Returns the key of the VMI in the pod's owner reference. Does not compare the owner's uid, because the reconcile pass does. */
function findVmiKey(pod: Pod): string | undefined {
  const owner = findController(pod);
  if (owner?.kind !== VIRTUAL_MACHINE_INSTANCES.kind) return undefined;
  return printKey({ namespace: pod.metadata.namespace ?? "", name: owner.name });
}

function toKey(object: KubeObject): string {
  return printKey(keyOf(object));
}

function enqueueChanged<T extends KubeObject>(
  cache: Cache<T>,
  queue: Queue,
  toKey: (object: T) => string | undefined,
): void {
  cache.onChange((change: Change<T>) => {
    const key = toKey(change.kind === "deleted" ? change.previous : change.current);
    if (key !== undefined) queue.add(key);
  });
}

function enqueueClaimUsers({ claims, vmis }: Caches, queue: Queue): void {
  claims.onChange((change) => {
    const { metadata } = change.kind === "deleted" ? change.previous : change.current;
    for (const vmi of vmis.list()) {
      const isUser =
        vmi.metadata.namespace === metadata.namespace &&
        listClaimNames(vmi).includes(metadata.name);
      if (isUser) queue.add(toKey(vmi));
    }
  });
}

/** Enqueues a node's VMIs when the node stops or resumes responding, or when it is cordoned or uncordoned. */
function enqueueNodeVmis({ nodes, vmis }: Caches, queue: Queue): void {
  nodes.onChange((change) => {
    const previous = change.kind === "added" ? undefined : change.previous;
    const current = change.kind === "deleted" ? undefined : change.current;
    const hasLossChanged = isNodeUnresponsive(previous) !== isNodeUnresponsive(current);
    if (!hasLossChanged && isSchedulable(previous) === isSchedulable(current)) return;
    const { name } = (current ?? previous)?.metadata ?? {};
    for (const vmi of name === undefined ? [] : vmis.listBy(BY_NODE, name)) {
      queue.add(toKey(vmi));
    }
  });
}

function enqueueNetworkVmis({ nads, vmis }: Caches, queue: Queue): void {
  nads.onChange((change) => {
    const nad = change.kind === "deleted" ? change.previous : change.current;
    for (const vmi of vmis.listBy(BY_NETWORK, toKey(nad))) queue.add(toKey(vmi));
    const wasPrimary = change.kind === "updated" && isPrimaryNetwork(change.previous);
    if (!wasPrimary && !isPrimaryNetwork(nad)) return;
    // A primary network carries the pod network of its namespace.
    for (const vmi of vmis.list()) {
      const isInNamespace = vmi.metadata.namespace === nad.metadata.namespace;
      if (isInNamespace && findPodNetwork(vmi.spec) !== undefined) queue.add(toKey(vmi));
    }
  });
}

function listNodes(vmi: VirtualMachineInstance): readonly string[] {
  const nodes = [vmi.status?.nodeName, openMigration(vmi)?.targetNode];
  return [...new Set(nodes.filter((node) => node !== undefined))];
}

function forgetDeletedObjects<T extends KubeObject>(
  cache: Cache<T>,
  { stepBackoff, deferrals }: Deps,
): void {
  cache.onChange((change: Change<T>) => {
    if (change.kind !== "deleted") return;
    const { uid = "" } = change.previous.metadata;
    stepBackoff.forget(uid);
    deferrals.end(uid);
  });
}

/** Enqueues all VMs and VMIs when the `spec` of the KubeVirt object changes. */
function enqueueAll({ kubevirts, vms, vmis }: Caches, queue: Queue): void {
  kubevirts.onChange((change) => {
    if (change.kind === "updated" && isEqual(change.previous.spec, change.current.spec)) return;
    for (const object of [...vms.list(), ...vmis.list()]) queue.add(toKey(object));
  });
}

function enqueueInstancetypeUsers({ instancetypes, vms }: Caches, queue: Queue): void {
  onInstancetypeChange(instancetypes, (key) => {
    for (const vm of vms.listBy(BY_INSTANCETYPE, key)) queue.add(toKey(vm));
  });
}

function createCaches({ client, log }: DaemonContext): Caches {
  // The selector only keeps the cache small. Other pods may have the label too, so the reconcile pass checks the owner references.
  const labelSelector = `${names.KUBEVIRT_LABEL}=${names.LAUNCHER_LABEL_VALUE}`;
  const logger = log;
  return {
    vms: createCache(client.reflect(VIRTUAL_MACHINES, { trim: trimStoredVm }), {
      indexes: {
        [BY_INSTANCETYPE]: findMissingInstancetypes,
        [BY_MAC]: (vm) => listMacs(vm.spec.template.spec),
      },
      logger,
    }),
    instancetypes: createInstancetypeCaches(client, logger),
    vmis: createCache(client.reflect(VIRTUAL_MACHINE_INSTANCES, { trim: trimStoredVmi }), {
      indexes: {
        [BY_NODE]: listNodes,
        [BY_NETWORK]: (vmi) => listNetworkNames(vmi, {}),
        [BY_MAC]: (vmi) => listMacs(vmi.spec),
      },
      logger,
    }),
    migrations: createMigrationCache(client, logger),
    policies: createCache(client.reflect(MIGRATION_POLICIES), { logger }),
    kubevirts: createCache(client.reflect(KUBEVIRTS), { logger }),
    pods: createCache(client.reflect(PODS, { labelSelector, trim: trimLauncher }), { logger }),
    claims: createCache(
      client.reflect(PERSISTENT_VOLUME_CLAIMS, { trim: withTrimmedAnnotations }),
      { logger },
    ),
    nodes: createCache(client.reflect(NODES, { trim: trimNode }), { logger }),
    // This cache is optional, because clusters without Multus lack the kind.
    nads: createCache(
      client.reflect(NETWORK_ATTACHMENT_DEFINITIONS, { trim: trimDefinition, isOptional: true }),
      {
        indexes: {
          [BY_PRIMARY]: (nad) => (isPrimaryNetwork(nad) ? [nad.metadata.namespace ?? ""] : []),
        },
        logger,
      },
    ),
    ipamClaims: createCache(
      client.reflect(IPAM_CLAIMS, { trim: withTrimmedAnnotations, isOptional: true }),
      {
        indexes: { [BY_OWNER]: (claim) => [findIpamClaimOwner(claim)].flatMap((key) => key ?? []) },
        logger,
      },
    ),
  };
}

async function startCaches(caches: Caches, signal: AbortSignal): Promise<void> {
  const { instancetypes, ...otherCaches } = caches;
  const allCaches = [...Object.values(otherCaches), ...listInstancetypeCaches(instancetypes)];
  for (const cache of allCaches) cache.start(signal);
  await Promise.all(allCaches.map((cache) => cache.synced()));
}

function createClaimWatches({
  client,
  clock,
  log: logger,
  signal,
}: DaemonContext): ObjectWatches<ResourceClaim> {
  const source = {
    openCache: (namespace: string) => {
      const options = { namespace, isOptional: true, isIdentityOnly: true };
      return createCache(client.reflect(RESOURCE_CLAIMS, options), { logger });
    },
    readObject: (key: ObjectKey) => client.store.find(RESOURCE_CLAIMS, key),
    clock,
    logger,
  };
  return new ObjectWatches(source, signal);
}

function createDeps(
  {
    clock,
    log,
    store,
    resourceClaims,
  }: Pick<DaemonContext, "clock" | "log"> & Pick<Deps, "store" | "resourceClaims">,
  caches: Caches,
  flags: Flags,
): Deps {
  const component = "virt-controller";
  const mutationCache = createMutationCache(
    caches.vms,
    caches.vmis,
    caches.migrations,
    caches.pods,
  );
  return {
    ...caches,
    resourceClaims,
    store,
    instancetypes: createCachedReader(
      store,
      mutationCache,
      listCachedInstancetypeKinds(caches.instancetypes),
    ),
    mutationCache,
    macMutex: new KeyedMutex(),
    stepBackoff: createStepBackoff({ clock }),
    deferrals: createDeferrals(clock, STATUS_MAX_DELAY_MS),
    events: createEventRecorder({ store, clock, logger: log, component }),
    clock,
    log,
    randomBytes,
    podNetwork: { passesAnyMac: flags.podNetworkPassesAnyMac },
    ovnDefaultNetwork: flags.ovnDefaultNetwork,
    launcherImage: flags.launcherImage,
    sidecarShimImage: flags.sidecarShimImage,
    imageVolumes: createImageVolumes({ store, log }),
  };
}

/** Creates the queue of VMs and VMIs. A VM and its VMI have the same key. */
function createWorkQueue(clock: Clock, caches: Caches, { concurrency }: Flags): Queue {
  const readInputs = (key: string): string => {
    const object = parseKey(key);
    return specVersionOf(caches.vms.find(object)) + specVersionOf(caches.vmis.find(object));
  };
  const queue = createQueue({ clock, concurrency, readInputs });
  enqueueChanged(caches.vms, queue, toKey);
  enqueueChanged(caches.vmis, queue, toKey);
  enqueueChanged(caches.pods, queue, findVmiKey);
  enqueueChanged(caches.ipamClaims, queue, findIpamClaimOwner);
  enqueueMigratingVmis(caches.migrations, (key) => {
    queue.add(key);
  });
  enqueueClaimUsers(caches, queue);
  enqueueNodeVmis(caches, queue);
  enqueueNetworkVmis(caches, queue);
  enqueueInstancetypeUsers(caches, queue);
  enqueueAll(caches, queue);
  return queue;
}

/** Builds the reporter of repeated write conflicts. Its events refer to the cached version of the object. */
function buildLostWrites(
  { vms, vmis, migrations, pods }: Caches,
  { events }: Deps,
): LostWriteReporter {
  const caches: Readonly<Record<string, Pick<Cache<KubeObject>, "find">>> = {
    [VIRTUAL_MACHINES.resource]: vms,
    [VIRTUAL_MACHINE_INSTANCES.resource]: vmis,
    [VIRTUAL_MACHINE_INSTANCE_MIGRATIONS.resource]: migrations,
    [PODS.resource]: pods,
  };
  return { events, find: (resource, key) => caches[resource]?.find(key) };
}

async function runInstallationLoop(
  { client, clock, log, health, signal }: DaemonContext,
  { kubevirts, store }: Pick<Deps, "store" | "kubevirts">,
): Promise<void> {
  const fieldSelector = `metadata.name=v1.${names.SUBRESOURCES_GROUP}`;
  const apiServices = createCache(client.reflect(API_SERVICES, { fieldSelector }), { logger: log });
  const watch = health.watchLoop("installation");
  const queue = createQueue({ clock });
  for (const cache of [kubevirts, apiServices])
    enqueueChanged<KubeObject>(cache, queue, () => KUBEVIRTS.kind);
  apiServices.start(signal);
  await waitForCaches([apiServices], signal);
  queue.add(KUBEVIRTS.kind);
  const deps = { kubevirts, apiServices, store, clock, version: VERSION };
  const reconcileOne = (): Promise<Next> => reconcileInstallation(deps);
  await runReconciler(
    { name: "installation", queue, reconcile: reconcileOne, log, clock, watch },
    signal,
  );
}

function collectMetrics({ kubevirts, migrations, vmis, vms }: Caches): readonly MetricFamily[] {
  const allVmis = vmis.list();
  return [
    vmVnicFamily(vms.list()),
    vmiInfoFamily(allVmis, evictionStrategyOf(kubevirts.list()[0])),
    vmiAddressFamily(allVmis),
    ...migrationFamilies(migrations.list(), allVmis),
  ];
}

/** Records the durations of phase transitions that this process observes. A standby records them too, as in KubeVirt. */
function recordPhases({ vmis, migrations }: Caches, metrics: DaemonContext["metrics"]): void {
  const record = createPhaseRecorder((settings) => metrics.addHistogram(settings));
  vmis.onChange((change) => {
    if (change.kind === "updated") record(observeVmiPhase(change.previous, change.current));
  });
  migrations.onChange((change) => {
    if (change.kind === "updated") record(observeMigrationPhase(change.previous, change.current));
  });
}

function reportLeader({ metrics, health }: DaemonContext, leadership: Leadership): void {
  metrics.addSource(() => Promise.resolve([leadingFamily(leadership)]));
  health.addNote(() => leadership.describe());
}

/** Runs the loops while this process is the leader, until the signal is aborted. */
export async function runController(context: DaemonContext, flags: Flags): Promise<void> {
  const { clock, log, metrics, health, signal } = context;
  const caches = createCaches(context);
  const leadership = await createLeadership(context, flags);
  const resourceClaims = createClaimWatches(context);
  const deps = createDeps({ clock, log, store: leadership.store, resourceClaims }, caches, flags);
  const queue = createWorkQueue(clock, caches, flags);
  const enqueue = (key: string): void => {
    queue.add(key);
  };
  resourceClaims.onSynced(enqueue);
  resourceClaims.onChange(enqueue);
  const services = createServicesLoop(context, caches);
  recordPhases(caches, metrics);
  forgetDeletedObjects(caches.vms, deps);
  forgetDeletedObjects(caches.vmis, deps);
  forgetDeletedObjects(caches.migrations, deps);
  await Promise.all([startCaches(caches, signal), services.start(signal)]);
  reportLeader(context, leadership);
  health.reportConfig(() => configVersionOf(caches.kubevirts.list()[0]));
  metrics.addSource(() => Promise.resolve(collectMetrics(caches)));
  context.ready();
  await leadership.campaign(signal).catch(() => undefined); // campaign() rejects only when the signal is aborted.
  if (signal.aborted) return;
  const reconcileOne = (key: string): Promise<Next> => reconcile(key, deps);
  const lostWrites = buildLostWrites(caches, deps);
  const options = { name: "vm", queue, reconcile: reconcileOne, log, clock, metrics };
  const loop = { ...options, watch: health.watchLoop("vm"), lostWrites };
  await Promise.all([
    runReconciler(loop, signal),
    services.run(deps, signal),
    runInstallationLoop(context, deps),
    leadership.hold(signal),
  ]);
  await deps.events.flush();
  await leadership.release();
}
