// SPDX-License-Identifier: Apache-2.0
// What CNI made of an iface in a launcher pod, as the status of a VMI tells it; ours.
import type { Static } from "typebox";
import { Type } from "../fields/schema.ts";
import { OPEN } from "./network.ts";

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
