// SPDX-License-Identifier: Apache-2.0
// Networks and ifaces as a VM declares them. Source: KubeVirt api/core/v1 schema.go, types Network and Interface.
import type { Static } from "typebox";
import { Type } from "../fields/schema.ts";
import { BINDING_FIELDS, IFACE_FIELDS } from "../fields/device-fields.ts";
import { anything, flag, oneOf, unbuilt } from "../fields/notation.ts";
import { NETWORK_FIELDS } from "../fields/pod-fields.ts";
import { DHCP_OPTIONS } from "./guest/dhcp-options.ts";
import { PORT_SECURITY } from "./guest/port-security.ts";

/** Keeps fields that Patchbay does not know; the CRD says `x-kubernetes-preserve-unknown-fields`. */
export const OPEN = { "x-kubernetes-preserve-unknown-fields": true } as const;

/** A network of a VM, by which its iface of the same name is found. */
export const NetworkSchema = Type.Object(
  {
    name: Type.String({ description: "Name of the network within the VM." }),
    pod: Type.Optional(
      Type.Object(
        {
          vmNetworkCIDR: Type.Optional(
            Type.String({
              description: "Subnet of the guest with masquerade; 10.0.2.0/24 when absent.",
            }),
          ),
          vmIPv6NetworkCIDR: Type.Optional(
            Type.String({
              description: "IPv6 subnet of the guest with masquerade; fd10:0:2::/120 when absent.",
            }),
          ),
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
          // Read where a stored VM must not be taken for one with a secondary network.
          default: unbuilt(flag("It takes the place of the pod's default network."), {
            unless: oneOf(false),
            hint: "use pod: {}, or join the network beside it",
          }),
        },
        { description: "A network of a NetworkAttachmentDefinition." },
      ),
    ),
    ...NETWORK_FIELDS,
  },
  { description: "A network that the VM joins." },
);

/** Source: KubeVirt api/core/v1 schema.go, type Port. */
const PORT = Type.Object(
  {
    name: Type.Optional(Type.String({ description: "Name of the port." })),
    port: Type.Integer({ description: "Number." }),
    protocol: Type.Optional(Type.String({ description: "TCP or UDP; TCP when absent." })),
  },
  { description: "One port." },
);

/** Source: KubeVirt api/core/v1 schema.go, type PortRange. */
const PORT_RANGE = Type.Object(
  {
    protocol: Type.String({ description: "TCP or UDP." }),
    start: Type.Integer({ description: "First port." }),
    end: Type.Integer({ description: "Last port." }),
  },
  { description: "One range." },
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
    masquerade: Type.Optional(
      Type.Object({}, { description: "The guest is hidden behind the addresses of the pod." }),
    ),
    ports: Type.Optional(
      Type.Array(PORT, {
        description:
          "Ports of the pod that are the guest's with masquerade, all when absent; with other bindings all are.",
      }),
    ),
    portRanges: Type.Optional(
      Type.Array(PORT_RANGE, {
        description:
          "Ranges of such ports, apart from each other; with masquerade only, not beside ports.",
      }),
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
    portSecurity: Type.Optional(PORT_SECURITY),
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
