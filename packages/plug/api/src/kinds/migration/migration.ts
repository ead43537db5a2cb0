// SPDX-License-Identifier: Apache-2.0
// VirtualMachineInstanceMigration: a guest is to go to another node. Source: KubeVirt api/core/v1 types.go.
import type { Static } from "typebox";
import { Type } from "../../fields/schema.ts";
import type { KubeObject } from "../kubernetes/meta.ts";
import { OPEN } from "../network.ts";
import { CONDITIONS_SCHEMA } from "../conditions.ts";
import { MIGRATION_STATE_SCHEMA } from "./state.ts";

/** Of a migration that goes well, in the order in which they pass. Source: KubeVirt VirtualMachineInstanceMigrationPhase. */
export const MIGRATION_PHASES = [
  "Pending",
  "Scheduling",
  "Scheduled",
  "PreparingTarget",
  "TargetReady",
  "Running",
  "Succeeded",
] as const;

const PHASES = ["", ...MIGRATION_PHASES, "Failed"] as const;
const PHASE = Type.Unsafe<(typeof PHASES)[number]>({ type: "string", enum: [...PHASES] });

/** Those that come first first. Source: KubeVirt MigrationPriority. */
export const MIGRATION_PRIORITIES = [
  "system-critical",
  "user-triggered",
  "system-maintenance",
] as const;

/** How urgent a migration is. */
export type MigrationPriority = (typeof MIGRATION_PRIORITIES)[number];

/** What is asked for; never changed. */
export const MigrationSpecSchema = Type.Object(
  {
    vmiName: Type.Optional(
      Type.String({ description: "Name of the VirtualMachineInstance, in the same namespace." }),
    ),
    addedNodeSelector: Type.Optional(
      Type.Record(Type.String(), Type.String(), {
        description: "Labels that the target node has besides; those that the VM asks for win.",
      }),
    ),
    priority: Type.Optional(
      Type.Unsafe<MigrationPriority>({
        type: "string",
        enum: [...MIGRATION_PRIORITIES],
        description:
          "Which migrations come first; those without come last. Only virt-controller sets it.",
      }),
    ),
  },
  OPEN,
);

/** Where it is; writer: virt-controller. */
export const MigrationStatusSchema = Type.Object(
  {
    phase: Type.Optional(PHASE),
    phaseTransitionTimestamps: Type.Optional(
      Type.Array(
        Type.Object({
          phase: PHASE,
          phaseTransitionTimestamp: Type.String({ format: "date-time" }),
        }),
        { description: "When each phase was seen first." },
      ),
    ),
    conditions: Type.Optional(CONDITIONS_SCHEMA),
    migrationState: Type.Optional(MIGRATION_STATE_SCHEMA),
  },
  OPEN,
);

/** A guest is to go to another node. */
export interface VirtualMachineInstanceMigration extends KubeObject {
  readonly spec: Static<typeof MigrationSpecSchema>;
  readonly status?: Static<typeof MigrationStatusSchema>;
}

/** Whether nothing of it will ever change. */
export function isMigrationFinal({ status }: VirtualMachineInstanceMigration): boolean {
  return status?.phase === "Succeeded" || status?.phase === "Failed";
}
