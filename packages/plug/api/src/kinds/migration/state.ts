// SPDX-License-Identifier: Apache-2.0
// What is told of a VMI's migration, in VMI and migration alike. Source: KubeVirt api/core/v1 types.go
// VirtualMachineInstanceMigrationState; `targetAttachments`, `targetNodeDomainFaults`, `sourceNodeDomainLeft`,
// `sourceEndedTimestamp`, `abortRequestedTimestamp`, `guestLost` and `progress` are ours.
import type { Static } from "typebox";
import { Type } from "../../fields/schema.ts";
import { OPEN } from "../network.ts";
import { MIGRATION_CONFIGURATION } from "./configuration.ts";
import { ATTACHMENT_SCHEMA } from "../attachment.ts";

const MODES = ["PreCopy", "PostCopy", "Paused"] as const;
const ABORT_STATES = ["Aborting", "Succeeded", "Failed"] as const;

function time(description: string) {
  return Type.Optional(Type.String({ format: "date-time", description }));
}

function word(description: string) {
  return Type.Optional(Type.String({ description }));
}

function flag(description: string) {
  return Type.Optional(Type.Boolean({ description }));
}

function amount(description: string) {
  return Type.Optional(Type.Integer({ minimum: 0, description }));
}

/** Of memory and disks together, as the source's libvirt counts them (virDomainGetJobStats). */
const PROGRESS_SCHEMA = Type.Object(
  {
    dataTotalBytes: amount("All that the guest has."),
    dataProcessedBytes: amount("What has gone over; a page that was written again goes again."),
    dataRemainingBytes: amount("What is still to go."),
    memoryBytesPerSecond: amount("How fast memory goes."),
  },
  {
    ...OPEN,
    description: "How far it is, while the guest moves; writer: the source's virt-handler.",
  },
);

/** Of one migration at a time; the last one's stays. */
export const MIGRATION_STATE_SCHEMA = Type.Object(
  {
    migrationUid: word("uid of the VirtualMachineInstanceMigration."),
    sourceNode: word("Node that the guest leaves."),
    sourcePod: word("Name of the launcher pod there."),
    targetNode: word("Node that the guest goes to."),
    targetPod: word("Name of the launcher pod there."),
    migrationConfiguration: Type.Optional(MIGRATION_CONFIGURATION),
    migrationPolicyName: word("The policy that changed the cluster's settings for this guest."),
    targetNodeAddress: word("Where the target's node listens; writer: its virt-handler."),
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
          "How the guest that has come differs from what the target's node made ready, for people: as long as there is anything it stands still there; writer: the target's virt-handler.",
      }),
    ),
    targetAttachments: Type.Optional(
      Type.Array(ATTACHMENT_SCHEMA, {
        description: "What the target's pod has for each interface, until the guest is there.",
      }),
    ),
    sourceNodeDomainLeft: flag(
      "The guest is no longer at the source, since it is at the target; told when the migration is to end before its time; writer: the source's virt-handler.",
    ),
    sourceEndedTimestamp: time(
      "When the source's pod was found to have ended, while nobody had told yet where the guest is.",
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
    failureReason: word("Why it failed."),
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

/** What is told of a VMI's migration. */
export type MigrationState = Static<typeof MIGRATION_STATE_SCHEMA>;
