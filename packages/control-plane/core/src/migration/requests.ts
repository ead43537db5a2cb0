// SPDX-License-Identifier: Apache-2.0
// Checks requests to migrate a guest or evict its pod. Source: KubeVirt
// pkg/virt-api/webhooks/validating-webhook/admitters.
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

export function isMigratable({ status }: VirtualMachineInstance): boolean {
  return findCondition(status?.conditions, LIVE_MIGRATABLE)?.status === "True";
}

const NOT_REPORTED = {
  reason: "LiveMigratableUnknown",
  message: "whether the guest can be migrated is known once it runs",
};

export function migrationProblem(
  vmi: VirtualMachineInstance | undefined,
  key: { readonly namespace: string; readonly name: string },
): string | undefined {
  if (vmi === undefined) return `the VMI "${key.namespace}/${key.name}" does not exist`;
  if (isVmiFinal(vmi)) return "Cannot migrate VMI in finalized state.";
  if (isMigratable(vmi)) return undefined;
  const condition = findCondition(vmi.status?.conditions, LIVE_MIGRATABLE);
  const { reason = NOT_REPORTED.reason, message = NOT_REPORTED.message } = condition ?? {};
  return `Cannot migrate VMI, Reason: ${reason}, Message: ${message}`;
}

/** Returns an error message if a migration of the VMI is in flight. `migrations` contains the migrations of the VMI's namespace. */
export function inFlightProblem(
  { metadata: { name } }: VirtualMachineInstance,
  migrations: readonly VirtualMachineInstanceMigration[],
): string | undefined {
  const activeMigration = migrations.find(
    (migration) => migration.spec.vmiName === name && !isMigrationFinal(migration),
  );
  if (activeMigration === undefined) return undefined;
  return `in-flight migration detected. Active migration job (${activeMigration.metadata.uid ?? ""}) is currently already in progress for VMI ${name}.`;
}

export function listLauncherNames(vmi: VirtualMachineInstance): readonly string[] {
  const openState = openMigration(vmi);
  const owner = ownerPodName(vmi);
  if (openState === undefined) return [owner];
  return [...new Set([owner, launcherPodName(vmi, openState.migrationUid)])];
}

export interface EvictionResponse {
  readonly message: string;
  /** Node that the guest must leave. Unset if the eviction requests no migration. */
  readonly evacuates?: string;
}

/** Returns a response that rejects the eviction, and requests a migration if none is requested yet. Undefined if the VMI has no node. */
function startEvacuation({
  metadata,
  status,
}: VirtualMachineInstance): EvictionResponse | undefined {
  // Deschedulers match this text, so it must not change. Source: KubeVirt pod-eviction-admitter.go.
  const message = `Eviction triggered evacuation of VMI "${metadata.namespace ?? ""}/${metadata.name}"`;
  const { nodeName, evacuationNodeName } = status ?? {};
  if (nodeName === undefined) return undefined;
  if (evacuationNodeName === nodeName) return { message: `Evacuation in progress: ${message}` };
  return { message, evacuates: nodeName };
}

export function findEvictionStrategy(
  { spec }: VirtualMachineInstance,
  clusterStrategy: EvictionStrategy,
): string {
  return spec.evictionStrategy ?? clusterStrategy;
}

/** Returns the response that rejects an eviction. Returns undefined if the eviction is allowed; a running guest then shuts down. */
export function respondToEviction(
  vmi: VirtualMachineInstance,
  podName: string,
  clusterStrategy: EvictionStrategy,
): EvictionResponse | undefined {
  if (isVmiFinal(vmi)) return undefined;
  if (podName !== ownerPodName(vmi)) return { message: "Eviction request for target Pod" };
  switch (findEvictionStrategy(vmi, clusterStrategy)) {
    case "External":
      return startEvacuation(vmi);
    case "LiveMigrateIfPossible":
      return isMigratable(vmi) ? startEvacuation(vmi) : undefined;
    case "LiveMigrate":
      return isMigratable(vmi) ? startEvacuation(vmi) : { message: describeNotMigratable(vmi) };
    default:
      return undefined;
  }
}

function describeNotMigratable({ metadata }: VirtualMachineInstance): string {
  return `VMI ${metadata.name} is configured with an eviction strategy but is not live-migratable`;
}
