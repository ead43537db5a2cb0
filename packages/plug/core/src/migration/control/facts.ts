// SPDX-License-Identifier: Apache-2.0
// What virt-controller knows when it decides about the migrations of one VMI.
import type {
  MigrationConfiguration,
  MigrationState,
  Pod,
  VirtualMachineInstanceMigration,
} from "@patchbay/api";
import type { NetworkAbsences } from "../../node/definitions.ts";
import type { NodeLoss } from "../../node/node-loss.ts";
import { endOf } from "../../status/vmi.ts";
import type { VmiFacts } from "../../plan/vm/vmi.ts";
import { openMigration } from "../owner.ts";

/** Condition of a migration. Source: KubeVirt VirtualMachineInstanceMigrationAbortRequested. */
export const ABORT_REQUESTED = "migrationAbortRequested";

/** The settings under which a guest moves. */
export interface MigrationSettings {
  readonly configuration: MigrationConfiguration;
  /** The policy that changed them; undefined: none. */
  readonly policyName: string | undefined;
}

/** The migrations of one VMI, and the pods between which its guest moves. */
export interface MigrationFacts {
  /** NAMESPACE/NAME of the VMI. */
  readonly key: string;
  /** The VMI, and the pod that owns its guest; undefined: there is no such VMI. */
  readonly guest: VmiFacts | undefined;
  /** The one that is worked on; undefined: none, or one is open whose object is gone. */
  readonly migration: VirtualMachineInstanceMigration | undefined;
  /** Those that wait until it is over, in their order. */
  readonly waiting: readonly VirtualMachineInstanceMigration[];
  /** Those that are over, in the order in which they were asked for. */
  readonly finished: readonly VirtualMachineInstanceMigration[];
  /** The pod that was made for it; undefined: there is none. */
  readonly targetPod: Pod | undefined;
  /** The target's node does not answer. */
  readonly targetLoss: NodeLoss | undefined;
  /** What the target's node cannot make NICs of, of the VMI's networks. */
  readonly targetAbsences: NetworkAbsences;
  /** Pods that no guest needs any more: targets of what is over, and sources. */
  readonly leftPods: readonly Pod[];
  /** Whether the limits let it begin. */
  readonly mayBegin: boolean;
  /** Labels that the target's node must have for the guest's processors. */
  readonly cpuLabels: Readonly<Record<string, string>>;
  /** Why no node can take the guest; undefined: one might. */
  readonly unfit: string | undefined;
  readonly settings: MigrationSettings;
  /** RFC 3339. */
  readonly now: string;
}

/** What the VMI says of the migration that is worked on, also when it is closed there. */
export function stateIn({ guest, migration }: MigrationFacts): MigrationState | undefined {
  if (guest === undefined) return undefined;
  if (migration === undefined) return openMigration(guest.vmi);
  const state = guest.vmi.status?.migrationState;
  return state?.migrationUid === migration.metadata.uid ? state : undefined;
}

/** Whether no guest runs in the pod any more, nor will. */
export function isPodOver(pod: Pod | undefined): boolean {
  return pod === undefined || endOf(pod) !== undefined;
}
