// SPDX-License-Identifier: Apache-2.0
// What was done with the NICs of a running guest, as VMI and VM keep it. Ours.
import type { Static } from "typebox";
import { Type } from "../fields/schema.ts";
import { HOTPLUG_TYPES, IFACE_PHASES, type IfacePhase } from "./iface-phase.ts";

const OPERATION_TYPES = [...HOTPLUG_TYPES, "LinkState"] as const;
const OUTCOMES = ["Done", "Cancelled", "GuestEnded"] as const;
const LINK_STATES = ["up", "down"] as const;

/** What was asked for: the NIC comes, changes its network, goes, or its link goes up or down. */
export type OperationType = (typeof OPERATION_TYPES)[number];

/** How an operation ended: as asked, taken back, or with its guest. */
export type OperationEnd = (typeof OUTCOMES)[number];

const OperationSchema = Type.Object({
  type: Type.Unsafe<OperationType>({ type: "string", enum: [...OPERATION_TYPES] }),
  networkName: Type.Optional(
    Type.String({
      description: "Network that the NIC was to join or leave, NAMESPACE/NAME; absent: the pod's.",
    }),
  ),
  linkState: Type.Optional(
    Type.Unsafe<(typeof LINK_STATES)[number]>({
      type: "string",
      enum: [...LINK_STATES],
      description: "Of LinkState: what the link was to become.",
    }),
  ),
  startTimestamp: Type.String({ format: "date-time", description: "When the node saw it first." }),
  endTimestamp: Type.Optional(
    Type.String({ format: "date-time", description: "Absent while it goes on." }),
  ),
  outcome: Type.Optional(
    Type.Unsafe<OperationEnd>({
      type: "string",
      enum: [...OUTCOMES],
      description: "Absent while it goes on.",
    }),
  ),
  phases: Type.Array(
    Type.Object({
      phase: Type.Unsafe<IfacePhase>({ type: "string", enum: [...IFACE_PHASES] }),
      milliseconds: Type.Optional(
        Type.Integer({ description: "How long it lasted, in all; absent while it lasts." }),
      ),
    }),
    { description: "In the order in which they began." },
  ),
  reason: Type.Optional(
    Type.String({ description: "What held it up last, in CamelCase; docs/reference/reasons.md." }),
  ),
  message: Type.Optional(Type.String({ description: "The same in words, cut where it is long." })),
  attempts: Type.Optional(Type.Integer({ description: "How often that step was tried in a row." })),
});

/** One thing that was done with a NIC of a running guest. */
export type IfaceOperation = Static<typeof OperationSchema>;

/** The last operations of each NIC; writers: docs/reference/ownership.md. */
export const IFACE_HISTORY_SCHEMA = Type.Array(
  Type.Object({
    name: Type.String({ description: "Name of the interface, which need not be there any more." }),
    operations: Type.Array(OperationSchema, { description: "The oldest first; 10 at most." }),
  }),
  { description: "What was done with the NICs of the running guest." },
);

/** The last operations of each NIC. */
export type IfaceHistory = Static<typeof IFACE_HISTORY_SCHEMA>;
