// SPDX-License-Identifier: Apache-2.0
// May a guest be asked to leave its node? By a migration, or by an eviction of its pod. Source: KubeVirt
// pkg/virt-api/webhooks/validating-webhook/admitters, whose words these are.
import {
  isMigrationFinal,
  isVmiFinal,
  type EvictionStrategy,
  type VirtualMachineInstance,
  type VirtualMachineInstanceMigration,
} from "@patchbay/api";
import { findCondition } from "../status/conditions.ts";
import { LIVE_MIGRATABLE } from "../status/live-migratable.ts";
import { launcherPodName, openMigration, ownerPodName } from "./owner.ts";

/** Whether virt-controller says that the guest can be migrated; not while nothing is said. */
export function isMigratable({ status }: VirtualMachineInstance): boolean {
  return findCondition(status?.conditions, LIVE_MIGRATABLE)?.status === "True";
}

/** Nobody has said anything yet. */
const UNKNOWN = {
  reason: "LiveMigratableUnknown",
  message: "whether the guest can be migrated is known once it runs",
};

/** Why no migration of that VMI may be made; undefined: it may. */
export function migrationProblem(
  vmi: VirtualMachineInstance | undefined,
  key: { readonly namespace: string; readonly name: string },
): string | undefined {
  if (vmi === undefined) return `the VMI "${key.namespace}/${key.name}" does not exist`;
  if (isVmiFinal(vmi)) return "Cannot migrate VMI in finalized state.";
  if (isMigratable(vmi)) return undefined;
  const told = findCondition(vmi.status?.conditions, LIVE_MIGRATABLE);
  const { reason = UNKNOWN.reason, message = UNKNOWN.message } = told ?? {};
  return `Cannot migrate VMI, Reason: ${reason}, Message: ${message}`;
}

/** Why no other migration of it may be made now, of those in its namespace; undefined: none is under way. */
export function inFlightProblem(
  { metadata: { name } }: VirtualMachineInstance,
  migrations: readonly VirtualMachineInstanceMigration[],
): string | undefined {
  const active = migrations.find(
    (migration) => migration.spec.vmiName === name && !isMigrationFinal(migration),
  );
  if (active === undefined) return undefined;
  return `in-flight migration detected. Active migration job (${active.metadata.uid ?? ""}) is currently already in progress for VMI ${name}.`;
}

/** Names of the pods in which its guest is, or to which it goes. */
export function launcherNamesOf(vmi: VirtualMachineInstance): readonly string[] {
  const open = openMigration(vmi);
  const owner = ownerPodName(vmi);
  if (open === undefined) return [owner];
  return [...new Set([owner, launcherPodName(vmi, open.migrationUid)])];
}

/** What is said to whoever evicts one of its pods, in place of evicting it. */
export interface EvictionAnswer {
  readonly message: string;
  /** The node that the guest is to leave from now on; absent: nothing is to be done. */
  readonly evacuates?: string;
}

/** The guest leaves its node; its pod follows it. */
function evacuationOf({ metadata, status }: VirtualMachineInstance): EvictionAnswer | undefined {
  // This wording is what deschedulers look for. Source: KubeVirt pod-eviction-admitter.go.
  const message = `Eviction triggered evacuation of VMI "${metadata.namespace ?? ""}/${metadata.name}"`;
  const { nodeName, evacuationNodeName } = status ?? {};
  if (nodeName === undefined) return undefined;
  if (evacuationNodeName === nodeName) return { message: `Evacuation in progress: ${message}` };
  return { message, evacuates: nodeName };
}

/** How a VM wants its launcher to be treated when it is evicted. */
export function evictionStrategyIn(
  { spec }: VirtualMachineInstance,
  ofCluster: EvictionStrategy,
): string {
  return spec.evictionStrategy ?? ofCluster;
}

/** Undefined: the pod may be evicted, and its guest is shut down. */
export function evictionAnswer(
  vmi: VirtualMachineInstance,
  podName: string,
  ofCluster: EvictionStrategy,
): EvictionAnswer | undefined {
  if (isVmiFinal(vmi)) return undefined;
  if (podName !== ownerPodName(vmi)) return { message: "Eviction request for target Pod" };
  switch (evictionStrategyIn(vmi, ofCluster)) {
    case "External":
      return evacuationOf(vmi);
    case "LiveMigrateIfPossible":
      return isMigratable(vmi) ? evacuationOf(vmi) : undefined;
    case "LiveMigrate":
      return isMigratable(vmi) ? evacuationOf(vmi) : { message: notMigratable(vmi) };
    default:
      return undefined;
  }
}

function notMigratable({ metadata }: VirtualMachineInstance): string {
  return `VMI ${metadata.name} is configured with an eviction strategy but is not live-migratable`;
}
