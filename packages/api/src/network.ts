// SPDX-License-Identifier: Apache-2.0
// Networks and ifaces as a VM declares them. Source: KubeVirt api/core/v1 schema.go, types Network and Interface.
import { Type, type Static } from "typebox";

/** Keeps fields that Patchbay does not know; the CRD says `x-kubernetes-preserve-unknown-fields`. */
export const OPEN = { "x-kubernetes-preserve-unknown-fields": true } as const;

/** A marker object such as `bridge: {}`. */
const Marker = Type.Object({}, OPEN);

export const NetworkSchema = Type.Object(
  {
    name: Type.String({ description: "Name of the network within the VM." }),
    pod: Type.Optional(
      Type.Object(
        {
          vmNetworkCIDR: Type.Optional(Type.String()),
          vmIPv6NetworkCIDR: Type.Optional(Type.String()),
        },
        { ...OPEN, description: "The pod's default network." },
      ),
    ),
    multus: Type.Optional(
      Type.Object(
        {
          networkName: Type.String({
            description: "NetworkAttachmentDefinition, as NAME or NAMESPACE/NAME.",
          }),
          default: Type.Optional(Type.Boolean()),
        },
        OPEN,
      ),
    ),
  },
  OPEN,
);

export const IfaceSchema = Type.Object(
  {
    name: Type.String({ description: "Name of the interface; equals the name of its network." }),
    model: Type.Optional(Type.String({ description: "Device model; virtio when empty." })),
    macAddress: Type.Optional(Type.String({ description: "MAC address, six bytes." })),
    state: Type.Optional(
      Type.String({ description: "Wanted state: up (or empty), down, or absent to unplug." }),
    ),
    bridge: Type.Optional(Marker),
    masquerade: Type.Optional(Marker),
    sriov: Type.Optional(Marker),
    binding: Type.Optional(Type.Object({ name: Type.String() }, OPEN)),
    bootOrder: Type.Optional(Type.Integer({ minimum: 1 })),
    pciAddress: Type.Optional(Type.String()),
    acpiIndex: Type.Optional(Type.Integer()),
  },
  OPEN,
);

/** An entry of `spec.networks`: what to join. */
export type Network = Static<typeof NetworkSchema>;
/** An entry of `spec.domain.devices.interfaces`: the NIC that the VM declares. */
export type Iface = Static<typeof IfaceSchema>;

/** Whether the network is the one that the pod has from the start. */
export function isDefaultNetwork(network: Network): boolean {
  return network.pod !== undefined || network.multus?.default === true;
}

/** Whether the iface is to be unplugged. */
export function isAbsent(iface: Iface): boolean {
  return iface.state === "absent";
}
