// SPDX-License-Identifier: Apache-2.0
import type {
  MigrationConfiguration,
  MigrationState,
  VirtualMachineInstanceMigration,
} from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";
import type { UnavailableNetworks } from "../../node/definitions.ts";
import type { NodeLoss } from "../../node/node-loss.ts";
import { findGuestEnd } from "../../status/vmi.ts";
import type { VmiFacts } from "../../vm/vmi.ts";
import { openMigration } from "../owner.ts";

/** Condition type of a migration. Source: KubeVirt VirtualMachineInstanceMigrationAbortRequested. */
export const ABORT_REQUESTED = "migrationAbortRequested";

export interface MigrationSettings {
  readonly configuration: MigrationConfiguration;
  readonly policyName: string | undefined;
}

export interface MigrationFacts {
  /** The VMI as NAMESPACE/NAME. */
  readonly key: string;
  readonly guest: VmiFacts | undefined;
  /** Current migration. Undefined if the VMI has none, or if the object of its current migration was deleted. */
  readonly migration: VirtualMachineInstanceMigration | undefined;
  readonly waiting: readonly VirtualMachineInstanceMigration[];
  readonly finished: readonly VirtualMachineInstanceMigration[];
  readonly targetPod: Pod | undefined;
  readonly targetLoss: NodeLoss | undefined;
  readonly targetAbsences: UnavailableNetworks;
  /** Pods that the guest no longer needs: targets of failed migrations and sources of successful migrations. */
  readonly leftoverPods: readonly Pod[];
  readonly mayBegin: boolean;
  readonly cpuLabels: Readonly<Record<string, string>>;
  readonly noTargetReason: string | undefined;
  readonly settings: MigrationSettings;
  readonly now: string;
}

export function findMigrationState({
  guest,
  migration,
}: MigrationFacts): MigrationState | undefined {
  if (guest === undefined) return undefined;
  if (migration === undefined) return openMigration(guest.vmi);
  const state = guest.vmi.status?.migrationState;
  return state?.migrationUid === migration.metadata.uid ? state : undefined;
}

export function hasPodEnded(pod: Pod | undefined): boolean {
  return pod === undefined || findGuestEnd(pod) !== undefined;
}

/** Checks whether the target node is ready for the guest. A node that is ready reports its address and ports. */
export function isTargetReady({
  targetNodeAddress,
  targetDirectMigrationNodePorts: ports = {},
}: MigrationState): boolean {
  return targetNodeAddress !== undefined && Object.keys(ports).length > 0;
}
