// SPDX-License-Identifier: Apache-2.0
// Networks and interfaces of a VM, with bindings, DHCP options and port security. Source: KubeVirt api/core/v1
// schema.go, types Network and Interface.
import { Type } from "../fields/schema.ts";
import { integer, list, object, quantity, text, anything } from "../fields/notation.ts";
import type { Static } from "typebox";
import { BINDING_FIELDS, IFACE_FIELDS } from "../fields/unacted-fields.ts";

/** DHCP option with a number from 224 to 254. The DHCP server sends the value unchanged. */
interface PrivateDhcpOption {
  readonly option: number;
  readonly value: string;
}

/** Source: KubeVirt api/core/v1 schema.go, type DHCPOptions. */
export interface DhcpOptions {
  readonly bootFileName?: string;
  readonly tftpServerName?: string;
  readonly ntpServers?: readonly string[];
  readonly privateOptions?: readonly PrivateDhcpOption[];
}

const DHCP_OPTIONS = Type.Optional(
  Type.Unsafe<DhcpOptions>(
    object("DHCP options, if the pod assigns the guest's address.", {
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

/** Modes of port security, from weakest to strictest. Port security limits the frames that a guest may send, as in OpenStack. */
export const SECURITY_MODES = ["Off", "MAC", "Addresses"] as const;

export type SecurityMode = (typeof SECURITY_MODES)[number];

export function isSecurityMode(text: string): text is SecurityMode {
  return SECURITY_MODES.some((mode) => mode === text);
}

const MODE_DESCRIPTION =
  "Off: no checks. MAC: only frames from the guest's MAC, without spanning tree, DHCP server replies and router advertisements. Addresses: also only the guest's addresses.";

const PORT_SECURITY = Type.Object(
  {
    mode: Type.Optional(
      Type.String({ description: `${MODE_DESCRIPTION} The cluster's setting when absent.` }),
    ),
    allowedMACs: Type.Optional(
      Type.Array(Type.String({ description: "MAC address." }), {
        description: "Additional source MACs of the guest, for example those of VRRP.",
      }),
    ),
    allowedAddresses: Type.Optional(
      Type.Array(Type.String({ description: "Address or prefix, for example 10.9.0.0/24." }), {
        description: "Additional addresses that the guest may claim.",
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

export const CLUSTER_PORT_SECURITY = Type.Object({
  mode: Type.Optional(
    Type.String({
      enum: [...SECURITY_MODES],
      description: `${MODE_DESCRIPTION} Off when absent; on the pod network always Addresses.`,
    }),
  ),
  enforced: Type.Optional(
    Type.Boolean({
      description: "Interfaces can only request a stricter mode, and their exceptions are ignored.",
    }),
  ),
});

export interface ClusterSecurity {
  readonly mode: SecurityMode;
  readonly enforced: boolean;
}

export function readClusterSecurity(
  configured: Static<typeof CLUSTER_PORT_SECURITY> | undefined,
): ClusterSecurity {
  const mode = configured?.mode ?? "";
  return { mode: isSecurityMode(mode) ? mode : "Off", enforced: configured?.enforced ?? false };
}

export const PRESERVE_UNKNOWN_FIELDS = { "x-kubernetes-preserve-unknown-fields": true } as const;

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
          default: Type.Optional(
            Type.Boolean({ description: "It takes the place of the pod's default network." }),
          ),
        },
        { description: "A network of a NetworkAttachmentDefinition." },
      ),
    ),
    resourceClaim: Type.Optional(
      Type.Object(
        {
          claimName: Type.Optional(
            Type.String({ description: "Name of an entry of spec.resourceClaims." }),
          ),
          requestName: Type.Optional(Type.String({ description: "Request in that claim." })),
        },
        {
          description:
            "A network device of a resource claim. Needs feature gate NetworkDevicesWithDRA.",
        },
      ),
    ),
  },
  { description: "A network that the VM joins." },
);

const PORT = Type.Object(
  {
    name: Type.Optional(Type.String({ description: "Name of the port." })),
    port: Type.Integer({ description: "Number." }),
    protocol: Type.Optional(Type.String({ description: "TCP or UDP; TCP when absent." })),
  },
  { description: "One port." },
);

const PORT_RANGE = Type.Object(
  {
    protocol: Type.String({ description: "TCP or UDP." }),
    start: Type.Integer({ description: "First port." }),
    end: Type.Integer({ description: "Last port." }),
  },
  { description: "One range." },
);

/** Maximum number of queue pairs of a tap. Source: linux/drivers/net/tun.c MAX_TAP_QUEUES */
export const QUEUES_MAX = 256;

/** Bounds of an interface's MTU, in bytes. Source: KubeVirt pull request 18968; RFC 791 section 3.1; linux/if_ether.h ETH_MAX_MTU */
export const [MTU_MIN, MTU_MAX] = [576, 65_535];

/** Builds the schema of an amount of data: a number of bytes, or a quantity such as 10Mi. Source: Kubernetes resource.Quantity. */
const bytes = (description: string) => Type.Unsafe<string | number>(quantity(description));

const BANDWIDTH_LIMIT = Type.Object(
  {
    average: bytes("Bytes per second, for example 10Mi."),
    peak: Type.Optional(
      bytes("Bytes per second while a burst is sent; above average. Unlimited when absent."),
    ),
    burst: Type.Optional(
      bytes(
        "Bytes that may exceed average, at least one frame; what average transfers in 50 ms when absent.",
      ),
    ),
  },
  { description: "Limit of one direction." },
);

/** Limits of an interface's traffic. Source: KubeVirt enhancement 235. */
export const BandwidthSchema = Type.Object(
  {
    inbound: Type.Optional(BANDWIDTH_LIMIT),
    outbound: Type.Optional(BANDWIDTH_LIMIT),
  },
  {
    description:
      "Limits of the traffic to the guest (inbound) and from the guest (outbound); unlimited when absent. Needs feature gate NetworkBandwidthLimiting.",
  },
);

export type BandwidthLimit = Static<typeof BANDWIDTH_LIMIT>;

export const IfaceSchema = Type.Object(
  {
    name: Type.String({ description: "Name of the interface; equals the name of its network." }),
    model: Type.Optional(Type.String({ description: "Device model; virtio when empty." })),
    macAddress: Type.Optional(
      Type.String({ description: "MAC address, six bytes; the network assigns one when empty." }),
    ),
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
      Type.String({ description: "PCI address, for example 0000:02:00.0." }),
    ),
    mtu: Type.Optional(
      Type.Integer({
        description: `MTU of the guest's NIC in bytes, ${String(MTU_MIN)} to ${String(MTU_MAX)}, at most that of the pod NIC; the pod NIC's when absent. Needs feature gate InterfaceMTUOverride.`,
      }),
    ),
    queues: Type.Optional(
      Type.Integer({
        description:
          "Queue pairs of a virtio NIC, at most one for each vCPU; without it one, or with networkInterfaceMultiqueue one for each vCPU. Needs feature gate NetworkInterfaceQueueLimits.",
      }),
    ),
    bandwidth: Type.Optional(BandwidthSchema),
    acpiIndex: Type.Optional(
      Type.Integer({
        description: "Index from which the guest may derive the NIC's name, 1 to 16383.",
      }),
    ),
    ips: Type.Optional(
      Type.Array(Type.String({ description: "Address, with or without prefix length." }), {
        description: "Addresses requested from the network.",
      }),
    ),
    ipamClaimName: Type.Optional(
      Type.String({ description: "IPAMClaim whose addresses are requested from the network." }),
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

export type Network = Static<typeof NetworkSchema>;
export type Iface = Static<typeof IfaceSchema>;

export function isDefaultNetwork(network: Network): boolean {
  return network.pod !== undefined || network.multus?.default === true;
}

/** Checks whether the interface must be unplugged. Its entry in the specification remains until guest and pod have detached the NIC. */
export function isAbsent(iface: Iface): boolean {
  return iface.state === "absent";
}

/** All present and former bindings of the API. Source: KubeVirt api/core/v1 schema.go, InterfaceBindingMethod and PluginBinding. */
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

export type Binding = (typeof BINDINGS)[number];

export function isBinding(field: string): boolean {
  return BINDINGS.some((binding) => binding === field);
}

/** Lists the bindings that the interface sets, in the order of {@link BINDINGS}. */
export function listBindings(iface: Iface): readonly Binding[] {
  return BINDINGS.filter((binding) => (iface[binding] ?? undefined) !== undefined);
}
