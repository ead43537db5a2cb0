// SPDX-License-Identifier: Apache-2.0
// Networks and ifaces as a VM declares them. Source: KubeVirt api/core/v1 schema.go, types Network and Interface.
import { Type, type Static } from "typebox";
import { BINDING_FIELDS, IFACE_FIELDS } from "../fields/device-fields.ts";
import { anything, harmless, text } from "../fields/notation.ts";
import { NETWORK_FIELDS } from "../fields/pod-fields.ts";
import { DHCP_OPTIONS } from "./guest/dhcp-options.ts";

/** Keeps fields that Patchbay does not know; the CRD says `x-kubernetes-preserve-unknown-fields`. */
export const OPEN = { "x-kubernetes-preserve-unknown-fields": true } as const;

/** A network of a VM, by which its iface of the same name is found. */
export const NetworkSchema = Type.Object(
  {
    name: Type.String({ description: "Name of the network within the VM." }),
    pod: Type.Optional(
      Type.Object(
        {
          vmNetworkCIDR: harmless(text("Subnet of the guest with masquerade.")),
          vmIPv6NetworkCIDR: harmless(text("IPv6 subnet of the guest with masquerade.")),
        },
        { description: "The pod's default network." },
      ),
    ),
    multus: Type.Optional(
      Type.Object(
        {
          networkName: Type.String({
            description: "NetworkAttachmentDefinition, as NAME or NAMESPACE/NAME.",
          }),
          default: Type.Optional(
            Type.Boolean({ description: "It takes the place of the pod's default network." }),
          ),
        },
        { description: "A network of a NetworkAttachmentDefinition." },
      ),
    ),
    ...NETWORK_FIELDS,
  },
  { description: "A network that the VM joins." },
);

/** A NIC as the VM declares it; fields that are not acted on are among `fields/`. */
export const IfaceSchema = Type.Object(
  {
    name: Type.String({ description: "Name of the interface; equals the name of its network." }),
    model: Type.Optional(Type.String({ description: "Device model; virtio when empty." })),
    macAddress: Type.Optional(Type.String({ description: "MAC address, six bytes." })),
    state: Type.Optional(
      Type.String({ description: "Wanted state: up (or empty), down, or absent to unplug." }),
    ),
    bridge: Type.Optional(
      Type.Object({}, { description: "The guest has the pod NIC's place on the network." }),
    ),
    binding: Type.Optional(
      Type.Object(
        { name: Type.String({ description: "Name of the binding in the KubeVirt object." }) },
        { description: "A binding that the cluster has registered." },
      ),
    ),
    ...BINDING_FIELDS,
    bootOrder: Type.Optional(
      Type.Integer({ minimum: 1, description: "Place in the order of boot devices, from 1." }),
    ),
    pciAddress: Type.Optional(
      Type.String({ description: "Where the device is, for example 0000:02:00.0." }),
    ),
    acpiIndex: Type.Optional(
      Type.Integer({ description: "Number that the guest may name it by, 1 to 16383." }),
    ),
    ips: Type.Optional(
      Type.Array(Type.String({ description: "Address, with or without prefix length." }), {
        description: "Addresses that are asked of the network.",
      }),
    ),
    ipamClaimName: Type.Optional(
      Type.String({ description: "IPAMClaim whose addresses are asked of the network." }),
    ),
    cniArgs: Type.Optional(
      Type.Unsafe<Readonly<Record<string, unknown>>>(
        anything("Arguments for the network's CNI plugin."),
      ),
    ),
    dhcpOptions: DHCP_OPTIONS,
    ...IFACE_FIELDS,
  },
  { description: "A NIC of the VM." },
);

/** An entry of `spec.networks`: what to join. */
export type Network = Static<typeof NetworkSchema>;
/** An entry of `spec.domain.devices.interfaces`: the NIC that the VM declares. */
export type Iface = Static<typeof IfaceSchema>;

/** Whether the network is the one that the pod has from the start. */
export function isDefaultNetwork(network: Network): boolean {
  return network.pod !== undefined || network.multus?.default === true;
}

/** Whether the iface is to be unplugged: its entry stays until the guest and the pod have let go of it. */
export function isAbsent(iface: Iface): boolean {
  return iface.state === "absent";
}
