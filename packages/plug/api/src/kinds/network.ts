// SPDX-License-Identifier: Apache-2.0
// Networks and ifaces as a VM declares them. Source: KubeVirt api/core/v1 schema.go, types Network and Interface.
import { Type } from "../fields/schema.ts";
import { integer, list, object, text, anything, flag, oneOf, unbuilt } from "../fields/notation.ts";
import type { Static } from "typebox";
import { BINDING_FIELDS, IFACE_FIELDS, NETWORK_FIELDS } from "../fields/unacted-fields.ts";

// Source: KubeVirt api/core/v1 schema.go, type DHCPOptions.

/** One of the options 224 to 254; the value is given as it is. */
interface PrivateDhcpOption {
  readonly option: number;
  readonly value: string;
}

/** Options that a person asks for. */
export interface DhcpOptions {
  readonly bootFileName?: string;
  readonly tftpServerName?: string;
  readonly ntpServers?: readonly string[];
  readonly privateOptions?: readonly PrivateDhcpOption[];
}

/** Of an iface. */
const DHCP_OPTIONS = Type.Optional(
  Type.Unsafe<DhcpOptions>(
    object("What the guest is told by DHCP, where the pod gives it its address.", {
      bootFileName: text("Option 67."),
      tftpServerName: text("Option 66."),
      ntpServers: list("Option 42.", text("IPv4 address.")),
      privateOptions: list(
        "Options 224 to 254.",
        object("One option.", { option: integer("Number."), value: text("Value.") }, [
          "option",
          "value",
        ]),
      ),
    }),
  ),
);

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
const PORT_SECURITY = Type.Object(
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

/** Every way that the API has or has had. Source: KubeVirt api/core/v1 schema.go, InterfaceBindingMethod and PluginBinding. */
const BINDINGS = [
  "bridge",
  "masquerade",
  "sriov",
  "passtBinding",
  "binding",
  "slirp",
  "passt",
  "macvtap",
] as const;

/** One way; the name of its field in the iface. */
export type Binding = (typeof BINDINGS)[number];

/** Whether a field of an iface is a way to bind it. */
export function isBinding(field: string): boolean {
  return BINDINGS.some((binding) => binding === field);
}

/** The ways that an iface names, in the order of the API; none means bridge on a secondary network. */
export function bindingsOf(iface: Iface): readonly Binding[] {
  return BINDINGS.filter((binding) => (iface[binding] ?? undefined) !== undefined);
}
