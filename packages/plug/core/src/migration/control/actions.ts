// SPDX-License-Identifier: Apache-2.0
// Which steps does virt-controller take for the migrations of a VMI?
import type { Pod, VirtualMachineInstanceMigration, VmiStatus } from "@patchbay/api";

type Migration = VirtualMachineInstanceMigration;

/** Members of the VMI's status that are written with its migration's state; an undefined one is taken away. */
export interface ToldMembers {
  readonly migrationState?: VmiStatus["migrationState"];
  readonly activePods?: VmiStatus["activePods"];
  readonly nodeName?: VmiStatus["nodeName"];
  readonly phase?: VmiStatus["phase"];
  readonly reason?: VmiStatus["reason"];
  readonly attachments?: VmiStatus["attachments"];
  readonly evacuationNodeName?: VmiStatus["evacuationNodeName"];
}

/** One step; each may be repeated. */
export type MigrationAction =
  /** It is kept until nothing is left of it, and found by its VMI. */
  | { readonly kind: "markMigration"; readonly migration: Migration }
  | { readonly kind: "createTargetPod"; readonly pod: Pod }
  | { readonly kind: "patchTargetNetworks"; readonly pod: Pod; readonly to: string }
  /** Both nodes are told, by the VMI. */
  | { readonly kind: "tellMigration"; readonly members: ToldMembers }
  /** So are those who choose VMIs by their labels. */
  | { readonly kind: "labelMigration" }
  | {
      readonly kind: "deleteLauncher";
      readonly namespace: string;
      readonly name: string;
      readonly uid: string;
      readonly graceSeconds: number;
    }
  | { readonly kind: "releaseMigration"; readonly migration: Migration }
  /** Nobody looks at the oldest any more. */
  | { readonly kind: "deleteMigration"; readonly migration: Migration };
