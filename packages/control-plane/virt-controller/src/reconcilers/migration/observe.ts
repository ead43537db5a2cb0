// SPDX-License-Identifier: Apache-2.0
import {
  isMigrationFinal,
  buildMigrationConfig,
  names,
  NAMESPACES,
  VIRTUAL_MACHINE_INSTANCES,
  type VirtualMachineInstance,
  type VirtualMachineInstanceMigration,
} from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";
import {
  usesNamespaceLabels,
  findCpuRequirement,
  currentMigration,
  hasMigrationBegun,
  sortByAge,
  isControlledBy,
  launcherPodName,
  mayBegin,
  readMigrationSettings,
  openMigration,
  ownerPodName,
  type MigrationFacts,
  type MigrationSettings,
  noTargetReason,
} from "@patchbay/core/migration";
import type { VmiFacts } from "@patchbay/core/vm";
import { parseKey, printTime } from "@patchbay/kube";
import type { Deps } from "../../deps.ts";
import { findAbsences, findLoss, findStoredLauncher, findWhole, observeVmi } from "../vmi/index.ts";

type Migration = VirtualMachineInstanceMigration;

/** Index of migrations by NAMESPACE/NAME of their VMIs. */
export const BY_VMI = "vmi";

export function toVmiKey({ metadata, spec }: Migration): string {
  return `${metadata.namespace ?? ""}/${spec.vmiName ?? ""}`;
}

/** Returns the migrations of the VMI with this key, oldest first. */
export function listMigrations(
  key: string,
  { migrations, mutationCache }: Deps,
): readonly Migration[] {
  const found = migrations.listBy(BY_VMI, key).filter((migration) => toVmiKey(migration) === key);
  return sortByAge(found).map((migration) => mutationCache.newest(migration));
}

/** Lists the names of a completed migration's source and target pods, except the pod in which the guest runs. */
function listLeftoverPods(vmi: VirtualMachineInstance): readonly string[] {
  const { completed, sourcePod, targetPod } = vmi.status?.migrationState ?? {};
  if (completed !== true) return [];
  const guestPodName = ownerPodName(vmi);
  return [sourcePod, targetPod].flatMap((name) =>
    name === undefined || name === guestPodName ? [] : [name],
  );
}

/** Checks for remains of a migration, which may itself be deleted: an unfinished state, a label for the target node, or an unused pod. */
function hasLeftovers(vmi: VirtualMachineInstance | undefined, { pods }: Deps): boolean {
  if (vmi === undefined) return false;
  const { labels, namespace = "" } = vmi.metadata;
  if (openMigration(vmi) !== undefined) return true;
  if (labels?.[names.MIGRATION_TARGET_NODE_LABEL] !== undefined) return true;
  return listLeftoverPods(vmi).some((name) => pods.find({ namespace, name }) !== undefined);
}

/** Finds the VMI's pod with this name. If the cache lacks the pod and `isExpected` is true, reads the pod from the API server. */
async function findPod(
  vmi: VirtualMachineInstance,
  name: string,
  { deps, isExpected }: { readonly deps: Deps; readonly isExpected: boolean },
): Promise<Pod | undefined> {
  const key = { namespace: vmi.metadata.namespace ?? "", name };
  const cached = deps.pods.find(key);
  const found = cached ?? (isExpected ? await findStoredLauncher(key, deps) : undefined);
  if (found === undefined || !isControlledBy(found, vmi)) return undefined;
  return deps.mutationCache.newest(found);
}

async function findTargetPod(
  vmi: VirtualMachineInstance,
  migration: Migration | undefined,
  deps: Deps,
): Promise<Pod | undefined> {
  const openState = openMigration(vmi);
  const uid = migration?.metadata.uid ?? openState?.migrationUid;
  if (uid === undefined) return undefined;
  const isExpected =
    openState !== undefined || (migration !== undefined && hasMigrationBegun(migration));
  return findPod(vmi, launcherPodName(vmi, uid), { deps, isExpected });
}

/** Checks whether the migration is being deleted, but still has the finalizer that virt-controller removes after the cleanup. */
function isLastPass({ metadata }: Migration): boolean {
  const hasFinalizer = metadata.finalizers?.includes(names.MIGRATION_FINALIZER) === true;
  return metadata.deletionTimestamp !== undefined && hasFinalizer;
}

async function findLeftoverPods(
  vmi: VirtualMachineInstance,
  finished: readonly Migration[],
  deps: Deps,
): Promise<readonly Pod[]> {
  const isExpectedByName = new Map<string, boolean>(
    listLeftoverPods(vmi).map((name) => [name, false]),
  );
  for (const migration of finished) {
    isExpectedByName.set(launcherPodName(vmi, migration.metadata.uid), isLastPass(migration));
  }
  isExpectedByName.delete(ownerPodName(vmi));
  const found = await Promise.all(
    [...isExpectedByName].map(([name, isExpected]) => findPod(vmi, name, { deps, isExpected })),
  );
  return found.filter((pod) => pod !== undefined);
}

/** Returns the labels of the namespace, or an empty object if no policy selects by namespace labels. */
async function readNamespaceLabels(
  namespace: string,
  { policies, store }: Deps,
): Promise<Readonly<Record<string, string>>> {
  if (!usesNamespaceLabels(policies.list())) return {};
  const found = await store.find(NAMESPACES, { name: namespace });
  return found?.metadata.labels ?? {};
}

async function readSettings(
  guest: VirtualMachineInstance | undefined,
  deps: Deps,
): Promise<MigrationSettings> {
  const kubevirt = deps.kubevirts.list()[0];
  const cluster = kubevirt?.spec?.configuration?.migrations;
  // Without a VMI, no policy applies. An open migration uses the configuration in `migrationState`, so policies no longer matter.
  if (guest === undefined || openMigration(guest) !== undefined) {
    return { configuration: buildMigrationConfig(cluster), policyName: undefined };
  }
  const labels = await readNamespaceLabels(guest.metadata.namespace ?? "", deps);
  const policies = deps.policies.list();
  return readMigrationSettings(kubevirt, guest, { policies, namespaceLabels: labels });
}

/** Checks whether the limits on parallel migrations allow a waiting migration to begin. */
function mayBeginNow(migration: Migration | undefined, deps: Deps): boolean {
  if (migration === undefined || hasMigrationBegun(migration)) return false;
  const cluster = deps.kubevirts.list()[0]?.spec?.configuration?.migrations;
  const configuration = buildMigrationConfig(cluster);
  const limits = {
    perCluster: configuration.parallelMigrationsPerCluster,
    perNode: configuration.parallelOutboundMigrationsPerNode,
  };
  const findNode = (each: Migration): string | undefined =>
    deps.vmis.find(parseKey(toVmiKey(each)))?.status?.nodeName;
  const allMigrations = deps.migrations.list().map((each) => deps.mutationCache.newest(each));
  return mayBegin(migration, allMigrations, { limits, nodeOf: findNode });
}

function findCpuLabels(guest: VmiFacts | undefined, { nodes }: Deps): MigrationFacts["cpuLabels"] {
  const name = guest?.pod?.spec.nodeName ?? "";
  return guest === undefined ? {} : findCpuRequirement(guest, nodes.find({ name })).labels;
}

/** Returns why no node can be the migration's target. Returns undefined if a node can be the target, or if the migration has begun. */
function findNoTargetReason(
  guest: VmiFacts | undefined,
  migration: Migration | undefined,
  { nodes }: Deps,
): string | undefined {
  if (guest === undefined || migration === undefined) return undefined;
  return hasMigrationBegun(migration) ? undefined : noTargetReason(guest, migration, nodes.list());
}

async function withWholeVmi(
  guest: VmiFacts | undefined,
  deps: Deps,
): Promise<VmiFacts | undefined> {
  const vmi = guest && (await findWhole(VIRTUAL_MACHINE_INSTANCES, guest.vmi, deps));
  return vmi && { ...guest, vmi };
}

/** Observes a VMI's migrations. Returns undefined if no migration exists and no cleanup is required. */
export async function observeMigrations(
  key: string,
  deps: Deps,
): Promise<MigrationFacts | undefined> {
  const cached = deps.vmis.find(parseKey(key));
  const vmi = cached && deps.mutationCache.newest(cached);
  const migrations = listMigrations(key, deps);
  if (migrations.length === 0 && !hasLeftovers(vmi, deps)) return undefined;
  const observed = await observeVmi(key, deps);
  const migration = currentMigration(migrations, observed?.vmi);
  const finished = migrations.filter(isMigrationFinal);
  const targetPod = observed && (await findTargetPod(observed.vmi, migration, deps));
  const mayNeedPod = migration !== undefined && targetPod === undefined;
  const guest = mayNeedPod ? await withWholeVmi(observed, deps) : observed;
  return {
    key,
    guest,
    migration,
    finished,
    targetPod,
    waiting: migrations.filter((each) => each !== migration && !isMigrationFinal(each)),
    targetLoss: findLoss(targetPod, deps),
    targetAbsences:
      guest === undefined
        ? new Map()
        : findAbsences({ vmi: guest.vmi, pod: targetPod }, guest.definitions, deps),
    leftoverPods: guest === undefined ? [] : await findLeftoverPods(guest.vmi, finished, deps),
    mayBegin: mayBeginNow(migration, deps),
    noTargetReason: findNoTargetReason(guest, migration, deps),
    cpuLabels: findCpuLabels(guest, deps),
    settings: await readSettings(guest?.vmi, deps),
    now: printTime(deps.clock.now()),
  };
}
