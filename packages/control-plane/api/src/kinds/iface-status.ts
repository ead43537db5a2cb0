// SPDX-License-Identifier: Apache-2.0
// Hot-plug phases, operations and pod attachments of an interface, in the status of VM and VMI. Patchbay adds these fields to KubeVirt's
// API.
import type { Static } from "typebox";
import { Type } from "../fields/schema.ts";
import { PRESERVE_UNKNOWN_FIELDS } from "./network.ts";

const PLUG_PHASES = ["Pending", "PodAttaching", "Wiring", "Attaching", "Ready"] as const;
const SWAP_PHASES = ["PodSwapping", "Switching"] as const;
const UNPLUG_PHASES = ["Detaching", "Unwiring", "PodDetaching"] as const;
/** Phases of all operations: plug, swap and unplug. An operation passes through its phases in this order. */
export const IFACE_PHASES = [...PLUG_PHASES, ...SWAP_PHASES, ...UNPLUG_PHASES] as const;
export const HOTPLUG_TYPES = ["Plug", "Swap", "Unplug"] as const;

/** Hot-plug phase of an interface; docs/reference/phases.md describes each phase. */
export type IfacePhase = (typeof IFACE_PHASES)[number];

export type HotplugType = (typeof HOTPLUG_TYPES)[number];

const OPERATION_TYPES = [...HOTPLUG_TYPES, "LinkState"] as const;
const OUTCOMES = ["Done", "Cancelled", "GuestEnded"] as const;
const LINK_STATES = ["up", "down"] as const;

type OperationType = (typeof OPERATION_TYPES)[number];

export type OperationEnd = (typeof OUTCOMES)[number];

const OperationSchema = Type.Object({
  type: Type.Unsafe<OperationType>({ type: "string", enum: [...OPERATION_TYPES] }),
  networkName: Type.Optional(
    Type.String({
      description:
        "Network that the NIC was to join or leave, NAMESPACE/NAME; the pod network when absent.",
    }),
  ),
  linkState: Type.Optional(
    Type.Unsafe<(typeof LINK_STATES)[number]>({
      type: "string",
      enum: [...LINK_STATES],
      description: "Requested state, for LinkState only.",
    }),
  ),
  startTimestamp: Type.String({
    format: "date-time",
    description: "When the node observed the request first.",
  }),
  endTimestamp: Type.Optional(
    Type.String({ format: "date-time", description: "Absent while the operation runs." }),
  ),
  outcome: Type.Optional(
    Type.Unsafe<OperationEnd>({
      type: "string",
      enum: [...OUTCOMES],
      description: "Absent while the operation runs.",
    }),
  ),
  phases: Type.Array(
    Type.Object({
      phase: Type.Unsafe<IfacePhase>({ type: "string", enum: [...IFACE_PHASES] }),
      milliseconds: Type.Optional(
        Type.Integer({ description: "Total duration; absent while the phase lasts." }),
      ),
    }),
    { description: "In the order in which they began." },
  ),
  reason: Type.Optional(
    Type.String({
      description: "Last reason for a delay, in CamelCase; docs/reference/reasons.md.",
    }),
  ),
  message: Type.Optional(
    Type.String({ description: "Explanation of the reason, shortened if it is long." }),
  ),
  attempts: Type.Optional(
    Type.Integer({ description: "Number of consecutive attempts of that step." }),
  ),
});

export type IfaceOperation = Static<typeof OperationSchema>;

/** Schema of the last operations on each interface; docs/reference/ownership.md lists the writers. */
export const IFACE_HISTORY_SCHEMA = Type.Array(
  Type.Object({
    name: Type.String({ description: "Name of the interface, which may have been removed." }),
    operations: Type.Array(OperationSchema, { description: "Up to 10 operations, oldest first." }),
  }),
  { description: "Operations on the NICs of the running guest." },
);

export type IfaceHistory = Static<typeof IFACE_HISTORY_SCHEMA>;

const ATTACHMENT_STATES = ["Requested", "Attached", "Failed", "Removing"] as const;

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
    gateways: Type.Optional(
      Type.Array(Type.String(), {
        description: "Gateways that CNI returned for this NIC, those of its default routes first.",
      }),
    ),
    dns: Type.Optional(
      Type.Object(
        { nameservers: Type.Array(Type.String()), search: Type.Array(Type.String()) },
        { description: "Name servers and search domains of the network." },
      ),
    ),
    deviceInfo: Type.Optional(Type.Unsafe<unknown>({ type: "object", ...PRESERVE_UNKNOWN_FIELDS })),
    reason: Type.Optional(Type.String()),
    message: Type.Optional(Type.String()),
  },
  {
    description:
      "Attachment of an interface in the pod; written by virt-controller. An interface that changes its network has two, the one in use first.",
  },
);

/** Attachment of an interface in the pod. During a swap, an interface has two attachments, with different `podInterfaceName`. */
export type Attachment = Static<typeof ATTACHMENT_SCHEMA>;
