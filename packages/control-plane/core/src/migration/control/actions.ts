// SPDX-License-Identifier: Apache-2.0
import type { VirtualMachineInstanceMigration, VmiStatus } from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";

type Migration = VirtualMachineInstanceMigration;

/** VMI status fields that virt-controller writes in one patch during a migration. The patch removes a field whose value is undefined. */
export interface VmiMigrationFields {
  readonly migrationState?: VmiStatus["migrationState"];
  readonly activePods?: VmiStatus["activePods"];
  readonly nodeName?: VmiStatus["nodeName"];
  readonly phase?: VmiStatus["phase"];
  readonly reason?: VmiStatus["reason"];
  readonly attachments?: VmiStatus["attachments"];
  readonly evacuationNodeName?: VmiStatus["evacuationNodeName"];
  readonly drainedNodeName?: VmiStatus["drainedNodeName"];
}

export type MigrationAction =
  /** Adds the finalizer and the label with the VMI's name to the migration. */
  | { readonly kind: "markMigration"; readonly migration: Migration }
  | { readonly kind: "createTargetPod"; readonly pod: Pod }
  | { readonly kind: "patchTargetNetworks"; readonly pod: Pod; readonly value: string }
  /** Writes the migration state into the VMI's status, which both nodes read. */
  | { readonly kind: "patchVmiMigration"; readonly fields: VmiMigrationFields }
  /** Updates the VMI's labels by which each node watches its VMIs. */
  | { readonly kind: "labelMigration" }
  | {
      readonly kind: "deleteLauncher";
      readonly namespace: string;
      readonly name: string;
      readonly uid: string;
      readonly graceSeconds: number;
    }
  | { readonly kind: "releaseMigration"; readonly migration: Migration }
  | { readonly kind: "deleteMigration"; readonly migration: Migration };
