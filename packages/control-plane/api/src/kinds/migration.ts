// SPDX-License-Identifier: Apache-2.0
// Settings, policies, requests and state of live migrations. Source: KubeVirt api/core/v1 types.go,
// api/migrations/v1alpha1 types.go.
import type { Static } from "typebox";
import { quantity } from "../fields/notation.ts";
import { Type } from "../fields/schema.ts";
import { PRESERVE_UNKNOWN_FIELDS } from "./network.ts";
import { ATTACHMENT_SCHEMA } from "./iface-status.ts";
import { type KubeObject, CONDITIONS_SCHEMA } from "./kubernetes/meta.ts";

/** Maximum downtime of a guest in milliseconds. Source: KubeVirt MaxDowntimeMs, QEMU MAX_MIGRATE_DOWNTIME (2000 s). */
const DOWNTIME_MAX_MS = 2_000_000;

function seconds(description: string) {
  return Type.Optional(Type.Integer({ minimum: 1, description }));
}

function flag(description: string) {
  return Type.Optional(Type.Boolean({ description }));
}

/** Builds the schema of a boolean setting that must be false, because Patchbay does not support the setting. */
function rejectedFlag(description: string) {
  return Type.Optional(Type.Unsafe<boolean>({ type: "boolean", enum: [false], description }));
}

const MIGRATION_SETTINGS = {
  allowAutoConverge: flag(
    "Slows down a guest that writes faster than its memory is transferred; false when absent.",
  ),
  allowPostCopy: rejectedFlag(
    "Must be false, because launchers may not handle the page faults of their guests.",
  ),
  allowWorkloadDisruption: flag(
    "Pauses a guest whose migration times out, and allows the same time again; false when absent.",
  ),
  bandwidthPerMigration: Type.Optional(
    Type.Unsafe<string | number>(
      quantity("Maximum bytes per second for each guest; unlimited when 0 or absent."),
    ),
  ),
  maxDowntimeMs: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: DOWNTIME_MAX_MS,
      description: "Maximum downtime of a guest in milliseconds; 900 when absent.",
    }),
  ),
  completionTimeoutPerGiB: seconds(
    "Maximum duration in seconds for each GiB of guest memory; 150 when absent.",
  ),
};

export const MIGRATION_CONFIGURATION = Type.Object(
  {
    ...MIGRATION_SETTINGS,
    parallelMigrationsPerCluster: Type.Optional(
      Type.Integer({
        minimum: 1,
        description: "Maximum number of simultaneous migrations; 5 when absent.",
      }),
    ),
    parallelOutboundMigrationsPerNode: Type.Optional(
      Type.Integer({
        minimum: 1,
        description: "Maximum number of simultaneous migrations from one node; 2 when absent.",
      }),
    ),
    progressTimeout: seconds(
      "Aborts a migration without progress after this number of seconds; 150 when absent.",
    ),
    unsafeMigrationOverride: flag(
      "Allows migrations of guests whose disks may not be safe to migrate.",
    ),
    disableTLS: rejectedFlag(
      "Must be false, because guest data is transferred between nodes with TLS.",
    ),
  },
  PRESERVE_UNKNOWN_FIELDS,
);

/** Source: KubeVirt pkg/virt-config, defaults of migrations. */
const DEFAULT_SETTINGS = {
  allowAutoConverge: false,
  allowPostCopy: false,
  allowWorkloadDisruption: false,
  bandwidthPerMigration: "0",
  completionTimeoutPerGiB: 150,
  parallelMigrationsPerCluster: 5,
  parallelOutboundMigrationsPerNode: 2,
  progressTimeout: 150,
  maxDowntimeMs: 900,
  unsafeMigrationOverride: false,
  disableTLS: false,
} as const;

type PartialConfiguration = Static<typeof MIGRATION_CONFIGURATION>;
type SettingName = keyof typeof DEFAULT_SETTINGS;

export type MigrationConfiguration = PartialConfiguration & {
  readonly [K in SettingName]-?: NonNullable<PartialConfiguration[K]>;
};

export function buildMigrationConfig(
  cluster: PartialConfiguration | undefined,
  overrides: PartialConfiguration = {},
): MigrationConfiguration {
  const configured: PartialConfiguration = { ...cluster, ...overrides };
  const keys = Object.keys(DEFAULT_SETTINGS) as readonly SettingName[];
  const settings = Object.fromEntries(
    keys.map((key) => [key, configured[key] ?? DEFAULT_SETTINGS[key]]),
  );
  // The cast is safe, because the API server has validated each member against its schema.
  return settings as MigrationConfiguration;
}

// Schema of the migration state. Source: KubeVirt VirtualMachineInstanceMigrationState. Patchbay's own fields: `targetAttachments`,
// `targetNodeDomainFaults`, `sourceNodeDomainLeft`, `sourceEndedTimestamp`, `abortRequestedTimestamp`, `guestLost` and `progress`.

const MIGRATION_MODES = ["PreCopy", "PostCopy", "Paused"] as const;
const ABORT_STATES = ["Aborting", "Succeeded", "Failed"] as const;

function timestamp(description: string) {
  return Type.Optional(Type.String({ format: "date-time", description }));
}

function optionalString(description: string) {
  return Type.Optional(Type.String({ description }));
}

function count(description: string) {
  return Type.Optional(Type.Integer({ minimum: 0, description }));
}

/** Schema of the combined progress of memory and disks, as the source node's libvirt reports it (virDomainGetJobStats). */
const PROGRESS_SCHEMA = Type.Object(
  {
    dataTotalBytes: count("Total amount of the guest's data."),
    dataProcessedBytes: count("Transferred data, including pages that were sent again."),
    dataRemainingBytes: count("Data that remains to be transferred."),
    memoryBytesPerSecond: count("Transfer rate of memory."),
  },
  {
    ...PRESERVE_UNKNOWN_FIELDS,
    description: "Progress while the guest migrates; writer: the source's virt-handler.",
  },
);

/** Schema of `status.migrationState`. A VMI's status contains the state of its current or last migration. */
export const MIGRATION_STATE_SCHEMA = Type.Object(
  {
    migrationUid: optionalString("uid of the VirtualMachineInstanceMigration."),
    sourceNode: optionalString("Node from which the guest migrates."),
    sourcePod: optionalString("Launcher pod on the source node."),
    targetNode: optionalString("Node to which the guest migrates."),
    targetPod: optionalString("Launcher pod on the target node."),
    migrationConfiguration: Type.Optional(MIGRATION_CONFIGURATION),
    migrationPolicyName: optionalString(
      "The policy that overrides the cluster's settings for this guest.",
    ),
    targetNodeAddress: optionalString(
      "Address on which the target node listens; writer: its virt-handler.",
    ),
    targetDirectMigrationNodePorts: Type.Optional(
      Type.Record(Type.String(), Type.Integer(), {
        description:
          "Purpose of each port of the target node: 0 is libvirt, 49152 memory, 49153 disks; writer: its virt-handler.",
      }),
    ),
    targetNodeDomainDetected: flag(
      "The target's libvirt has the domain; writer: its virt-handler.",
    ),
    targetNodeDomainReadyTimestamp: timestamp(
      "When the guest began to run on the target; writer: the target's virt-handler.",
    ),
    targetNodeDomainFaults: Type.Optional(
      Type.Array(Type.String(), {
        description:
          "How the migrated guest differs from what the target node prepared, as text. The guest stays paused while this is set; writer: the target's virt-handler.",
      }),
    ),
    targetAttachments: Type.Optional(
      Type.Array(ATTACHMENT_SCHEMA, {
        description: "Attachments of the target pod, until the guest runs there.",
      }),
    ),
    sourceNodeDomainLeft: flag(
      "The guest left the source for the target; set when the migration is aborted; writer: the source's virt-handler.",
    ),
    sourceEndedTimestamp: timestamp(
      "When the source pod was found to have ended before either node reported the guest.",
    ),
    startTimestamp: timestamp(
      "When the guest's memory began to move; writer: the source's virt-handler.",
    ),
    endTimestamp: timestamp("When the migration ended."),
    progress: Type.Optional(PROGRESS_SCHEMA),
    mode: Type.Optional(
      Type.Unsafe<(typeof MIGRATION_MODES)[number]>({
        type: "string",
        enum: [...MIGRATION_MODES],
        description: "Writer: the source's virt-handler.",
      }),
    ),
    completed: flag("Whether the migration ended, successfully or not."),
    failed: flag("Whether the migration failed, so that the guest did not move."),
    failureReason: optionalString("Why it failed."),
    guestLost: flag("Whether the guest ended with the failed migration."),
    abortRequested: flag("Whether the migration must be aborted."),
    abortRequestedTimestamp: timestamp("When the abort was requested."),
    abortStatus: Type.Optional(
      Type.Unsafe<(typeof ABORT_STATES)[number]>({
        type: "string",
        enum: [...ABORT_STATES],
        description: "Outcome of the abort; writer: the source's virt-handler.",
      }),
    ),
  },
  PRESERVE_UNKNOWN_FIELDS,
);

export type MigrationState = Static<typeof MIGRATION_STATE_SCHEMA>;

/** Phases of a successful migration, in order. Source: KubeVirt VirtualMachineInstanceMigrationPhase. */
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

/** Priorities, most urgent first. Source: KubeVirt MigrationPriority. */
export const MIGRATION_PRIORITIES = [
  "system-critical",
  "user-triggered",
  "system-maintenance",
] as const;

type MigrationPriority = (typeof MIGRATION_PRIORITIES)[number];

export const MigrationSpecSchema = Type.Object(
  {
    vmiName: Type.Optional(
      Type.String({ description: "Name of the VirtualMachineInstance, in the same namespace." }),
    ),
    addedNodeSelector: Type.Optional(
      Type.Record(Type.String(), Type.String(), {
        description: "Additional labels of the target node; the VM's node selector has precedence.",
      }),
    ),
    priority: Type.Optional(
      Type.Unsafe<MigrationPriority>({
        type: "string",
        enum: [...MIGRATION_PRIORITIES],
        description:
          "Order of migrations; those without a priority are last. Only virt-controller sets it.",
      }),
    ),
  },
  PRESERVE_UNKNOWN_FIELDS,
);

export const MigrationStatusSchema = Type.Object(
  {
    phase: Type.Optional(PHASE),
    phaseTransitionTimestamps: Type.Optional(
      Type.Array(
        Type.Object({
          phase: PHASE,
          phaseTransitionTimestamp: Type.String({ format: "date-time" }),
        }),
        { description: "When each phase was observed first." },
      ),
    ),
    conditions: Type.Optional(CONDITIONS_SCHEMA),
    migrationState: Type.Optional(MIGRATION_STATE_SCHEMA),
  },
  PRESERVE_UNKNOWN_FIELDS,
);

export interface VirtualMachineInstanceMigration extends KubeObject {
  readonly spec: Static<typeof MigrationSpecSchema>;
  readonly status?: Static<typeof MigrationStatusSchema>;
}

export function isMigrationFinal({ status }: VirtualMachineInstanceMigration): boolean {
  return status?.phase === "Succeeded" || status?.phase === "Failed";
}

function labels(description: string) {
  return Type.Optional(Type.Record(Type.String(), Type.String(), { description }));
}

export const MigrationPolicySpecSchema = Type.Object(
  {
    selectors: Type.Optional(
      Type.Object(
        {
          namespaceSelector: labels("Labels that the VM's namespace has, all of them."),
          virtualMachineInstanceSelector: labels(
            "Labels that the VirtualMachineInstance has, all of them.",
          ),
        },
        {
          ...PRESERVE_UNKNOWN_FIELDS,
          description:
            "Of several that match, the one with most labels counts, then the one with most labels of the VMI, then the first by name; one without any matches nothing.",
        },
      ),
    ),
    ...MIGRATION_SETTINGS,
  },
  PRESERVE_UNKNOWN_FIELDS,
);

/** Settings for the migrations of selected VMs. These settings override the cluster's. */
export interface MigrationPolicy extends KubeObject {
  readonly spec: Static<typeof MigrationPolicySpecSchema>;
}
