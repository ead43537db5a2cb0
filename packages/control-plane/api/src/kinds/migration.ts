// SPDX-License-Identifier: Apache-2.0
// Live migration: its settings, policies, requests and state. Source: KubeVirt api/core/v1 types.go,
// api/migrations/v1alpha1 types.go.
import type { Static } from "typebox";
import { quantity } from "../fields/notation.ts";
import { Type } from "../fields/schema.ts";
import { OPEN } from "./network.ts";
import { ATTACHMENT_SCHEMA } from "./iface-status.ts";
import { type KubeObject, CONDITIONS_SCHEMA } from "./kubernetes/meta.ts";

/** Source: KubeVirt MaxDowntimeMs, QEMU MAX_MIGRATE_DOWNTIME (2000 s). */
const DOWNTIME_MAX_MS = 2_000_000;

function seconds(description: string) {
  return Type.Optional(Type.Integer({ minimum: 1, description }));
}

function flag(description: string) {
  return Type.Optional(Type.Boolean({ description }));
}

/** A setting that is not supported. The schema rejects true, so that it is not ignored silently. */
function refusedFlag(description: string) {
  return Type.Optional(Type.Unsafe<boolean>({ type: "boolean", enum: [false], description }));
}

const MIGRATION_SETTINGS = {
  allowAutoConverge: flag(
    "A guest that writes faster than its memory goes over is slowed down; false when absent.",
  ),
  allowPostCopy: refusedFlag(
    "Only false: launchers may not handle the page faults of their guests.",
  ),
  allowWorkloadDisruption: flag(
    "Pauses a guest whose migration is late; the rest may take the same time again; false when absent.",
  ),
  bandwidthPerMigration: Type.Optional(
    Type.Unsafe<string | number>(
      quantity("Most bytes in a second for each guest; 0, or absent: as fast as it goes."),
    ),
  ),
  maxDowntimeMs: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: DOWNTIME_MAX_MS,
      description: "Milliseconds that a guest may stand still; 900 when absent.",
    }),
  ),
  completionTimeoutPerGiB: seconds(
    "A guest may take so many seconds for each GiB of its memory; 150 when absent.",
  ),
};

/** The cluster's settings; also the resolved settings of a migration. */
export const MIGRATION_CONFIGURATION = Type.Object(
  {
    ...MIGRATION_SETTINGS,
    parallelMigrationsPerCluster: Type.Optional(
      Type.Integer({ minimum: 1, description: "Guests that move at once; 5 when absent." }),
    ),
    parallelOutboundMigrationsPerNode: Type.Optional(
      Type.Integer({ minimum: 1, description: "The same away from one node; 2 when absent." }),
    ),
    progressTimeout: seconds(
      "Aborts a migration without progress after so many seconds; 150 when absent.",
    ),
    unsafeMigrationOverride: flag("Guests may move whose disks are not known to be safe."),
    disableTLS: refusedFlag("Only false: what guests have goes between nodes under TLS."),
  },
  OPEN,
);

/** Source: KubeVirt pkg/virt-config, defaults of migrations. */
const DEFAULTS = {
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
type SettingName = keyof typeof DEFAULTS;

export type MigrationConfiguration = PartialConfiguration & {
  readonly [K in SettingName]-?: NonNullable<PartialConfiguration[K]>;
};

export function buildMigrationConfig(
  cluster: PartialConfiguration | undefined,
  changed: PartialConfiguration = {},
): MigrationConfiguration {
  const configured: PartialConfiguration = { ...cluster, ...changed };
  const keys = Object.keys(DEFAULTS) as readonly SettingName[];
  const known = Object.fromEntries(keys.map((key) => [key, configured[key] ?? DEFAULTS[key]]));
  // The API server validated each member against its schema.
  return known as MigrationConfiguration;
}

// Source: KubeVirt VirtualMachineInstanceMigrationState; `targetAttachments`, `targetNodeDomainFaults`,
// `sourceNodeDomainLeft`, `sourceEndedTimestamp`, `abortRequestedTimestamp`, `guestLost` and `progress` are
// Patchbay's own.

const MODES = ["PreCopy", "PostCopy", "Paused"] as const;
const ABORT_STATES = ["Aborting", "Succeeded", "Failed"] as const;

function time(description: string) {
  return Type.Optional(Type.String({ format: "date-time", description }));
}

function optionalString(description: string) {
  return Type.Optional(Type.String({ description }));
}

function amount(description: string) {
  return Type.Optional(Type.Integer({ minimum: 0, description }));
}

/** Memory and disks together, as counted by the source's libvirt (virDomainGetJobStats). */
const PROGRESS_SCHEMA = Type.Object(
  {
    dataTotalBytes: amount("All that the guest has."),
    dataProcessedBytes: amount("Transferred data, including pages that were sent again."),
    dataRemainingBytes: amount("What is still to go."),
    memoryBytesPerSecond: amount("How fast memory goes."),
  },
  {
    ...OPEN,
    description: "How far it is, while the guest moves; writer: the source's virt-handler.",
  },
);

/** The state of the present or last migration, in the status of both VMI and migration. */
export const MIGRATION_STATE_SCHEMA = Type.Object(
  {
    migrationUid: optionalString("uid of the VirtualMachineInstanceMigration."),
    sourceNode: optionalString("Node that the guest leaves."),
    sourcePod: optionalString("Name of the launcher pod there."),
    targetNode: optionalString("Node that the guest goes to."),
    targetPod: optionalString("Name of the launcher pod there."),
    migrationConfiguration: Type.Optional(MIGRATION_CONFIGURATION),
    migrationPolicyName: optionalString(
      "The policy that changed the cluster's settings for this guest.",
    ),
    targetNodeAddress: optionalString("Where the target's node listens; writer: its virt-handler."),
    targetDirectMigrationNodePorts: Type.Optional(
      Type.Record(Type.String(), Type.Integer(), {
        description:
          "What is behind each port of that node: 0 is libvirt, 49152 memory, 49153 disks; writer: its virt-handler.",
      }),
    ),
    targetNodeDomainDetected: flag(
      "The target's libvirt has the domain; writer: its virt-handler.",
    ),
    targetNodeDomainReadyTimestamp: time(
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
        description: "What the target's pod has for each interface, until the guest is there.",
      }),
    ),
    sourceNodeDomainLeft: flag(
      "The guest left the source for the target; set when the migration is aborted; writer: the source's virt-handler.",
    ),
    sourceEndedTimestamp: time(
      "When the source pod was found to have ended before either node reported the guest.",
    ),
    startTimestamp: time(
      "When the guest's memory began to move; writer: the source's virt-handler.",
    ),
    endTimestamp: time("When it was over."),
    progress: Type.Optional(PROGRESS_SCHEMA),
    mode: Type.Optional(
      Type.Unsafe<(typeof MODES)[number]>({
        type: "string",
        enum: [...MODES],
        description: "Writer: the source's virt-handler.",
      }),
    ),
    completed: flag("It is over, whatever came of it."),
    failed: flag("The guest stays where it was."),
    failureReason: optionalString("Why it failed."),
    guestLost: flag("It failed with the guest, which is nowhere any more."),
    abortRequested: flag("It is to end before its time."),
    abortRequestedTimestamp: time("Since when."),
    abortStatus: Type.Optional(
      Type.Unsafe<(typeof ABORT_STATES)[number]>({
        type: "string",
        enum: [...ABORT_STATES],
        description: "What came of that; writer: the source's virt-handler.",
      }),
    ),
  },
  OPEN,
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

/** Most urgent first. Source: KubeVirt MigrationPriority. */
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
          "Which migrations come first; those without come last. Only virt-controller sets it.",
      }),
    ),
  },
  OPEN,
);

/** Writer: virt-controller. */
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
          ...OPEN,
          description:
            "Of several that match, the one with most labels counts, then the one with most labels of the VMI, then the first by name; one without any matches nothing.",
        },
      ),
    ),
    ...MIGRATION_SETTINGS,
  },
  OPEN,
);

/** Overrides the cluster's settings for the VMs that it selects. */
export interface MigrationPolicy extends KubeObject {
  readonly spec: Static<typeof MigrationPolicySpecSchema>;
}
