// SPDX-License-Identifier: Apache-2.0
// What a guest may send, as people say it. KubeVirt has nothing of the kind; the words are OpenStack's.
import type { Static } from "typebox";
import { Type } from "../../fields/schema.ts";

/** From the least that is judged to the most. */
export const SECURITY_MODES = ["Off", "MAC", "Addresses"] as const;

/** What is judged of the frames that a guest sends: nothing, where they come from, or also which addresses they claim. */
export type SecurityMode = (typeof SECURITY_MODES)[number];

/** Whether a text is a mode. */
export function isSecurityMode(text: string): text is SecurityMode {
  return SECURITY_MODES.some((mode) => mode === text);
}

const MODE_WORDS =
  "Off: nothing is judged. MAC: frames come from the guest's own MAC, and are neither spanning tree nor answers of a DHCP server or router. Addresses: they also claim no address but its own.";

/** What an iface says of what its guest may send. */
export const PORT_SECURITY = Type.Object(
  {
    mode: Type.Optional(
      Type.String({ description: `${MODE_WORDS} The cluster's setting when absent.` }),
    ),
    allowedMACs: Type.Optional(
      Type.Array(Type.String({ description: "MAC address." }), {
        description: "MACs that the guest may send from beside its own, for example VRRP's.",
      }),
    ),
    allowedAddresses: Type.Optional(
      Type.Array(Type.String({ description: "Address or prefix, for example 10.9.0.0/24." }), {
        description: "What the guest may claim beside the addresses that the network gave it.",
      }),
    ),
    allowServers: Type.Optional(
      Type.Boolean({
        description: "The guest may answer DHCP and advertise itself as a router.",
      }),
    ),
  },
  { description: "What the guest may send on a network that is not the pod's own." },
);

/** What the cluster says of all ifaces. */
export const CLUSTER_PORT_SECURITY = Type.Object({
  mode: Type.Optional(
    Type.String({
      enum: [...SECURITY_MODES],
      description: `${MODE_WORDS} Off when absent; on the pod network always Addresses.`,
    }),
  ),
  enforced: Type.Optional(
    Type.Boolean({
      description: "Interfaces can ask for more, not for less: what they allow does not count.",
    }),
  ),
});

/** What the cluster says, with defaults for what it does not say. */
export interface ClusterSecurity {
  readonly mode: SecurityMode;
  readonly enforced: boolean;
}

/** The cluster's settings, with defaults for what it does not say. */
export function clusterSecurityOf(
  given: Static<typeof CLUSTER_PORT_SECURITY> | undefined,
): ClusterSecurity {
  const mode = given?.mode ?? "";
  return { mode: isSecurityMode(mode) ? mode : "Off", enforced: given?.enforced ?? false };
}
