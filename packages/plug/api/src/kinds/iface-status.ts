// SPDX-License-Identifier: Apache-2.0
// Where an iface can be in its life, and what that is part of.
import type { Static } from "typebox";
import { Type } from "../fields/schema.ts";
import { OPEN } from "./network.ts";

const PLUG_PHASES = ["Pending", "PodAttaching", "Wiring", "Attaching", "Ready"] as const;
const SWAP_PHASES = ["PodSwapping", "Switching"] as const;
const UNPLUG_PHASES = ["Detaching", "Unwiring", "PodDetaching"] as const;
/** All of them, in the order in which they pass. */
export const IFACE_PHASES = [...PLUG_PHASES, ...SWAP_PHASES, ...UNPLUG_PHASES] as const;
/** All of them. */
export const HOTPLUG_TYPES = ["Plug", "Swap", "Unplug"] as const;

/** Where one iface is in its life; derived by `phaseOf` in core, meanings in docs/reference/phases.md. */
export type IfacePhase = (typeof IFACE_PHASES)[number];

/** What a phase is part of: the NIC comes, changes its network, or goes. */
export type HotplugType = (typeof HOTPLUG_TYPES)[number];

const OPERATION_TYPES = [...HOTPLUG_TYPES, "LinkState"] as const;
const OUTCOMES = ["Done", "Cancelled", "GuestEnded"] as const;
const LINK_STATES = ["up", "down"] as const;

/** What was asked for: the NIC comes, changes its network, goes, or its link goes up or down. */
type OperationType = (typeof OPERATION_TYPES)[number];

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

const ATTACHMENT_STATES = ["Requested", "Attached", "Failed", "Removing"] as const;

/** What the pod has for one iface. */
export const ATTACHMENT_SCHEMA = Type.Object(
  {
    name: Type.String({ description: "Name of the interface." }),
    networkName: Type.Optional(
      Type.String({ description: "NetworkAttachmentDefinition as NAMESPACE/NAME." }),
    ),
    podInterfaceName: Type.String({ description: "Name of the NIC in the pod." }),
    state: Type.Unsafe<(typeof ATTACHMENT_STATES)[number]>({
      type: "string",
      enum: [...ATTACHMENT_STATES],
    }),
    mac: Type.Optional(Type.String()),
    ips: Type.Optional(Type.Array(Type.String())),
    dns: Type.Optional(
      Type.Object(
        { nameservers: Type.Array(Type.String()), search: Type.Array(Type.String()) },
        { description: "Name servers of the network itself, and what is searched there." },
      ),
    ),
    deviceInfo: Type.Optional(Type.Unsafe<unknown>({ type: "object", ...OPEN })),
    reason: Type.Optional(Type.String()),
    message: Type.Optional(Type.String()),
  },
  {
    description:
      "What the pod has for one interface; written by virt-controller. An interface that changes its network has two, the one that its NIC hangs on first.",
  },
);

/**
 * What CNI made of an iface in the pod, as virt-controller tells virt-handler. Known by name and `podInterfaceName`: an
 * iface that changes its network has the old one and the new one.
 */
export type Attachment = Static<typeof ATTACHMENT_SCHEMA>;
