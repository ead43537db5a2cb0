// SPDX-License-Identifier: Apache-2.0
// VirtualMachineInstance. Source: KubeVirt api/core/v1 types.go; `attachments`, `hotplug` and `pciePorts` are ours.
import { Type, type Static } from "typebox";
import type { KubeObject } from "./meta.ts";
import { IfaceSchema, NetworkSchema, OPEN } from "./network.ts";

/** Ports for hot-plug that a VM may ask for; each costs boot time. Source: docs/design/pci-topology.md */
export const PCIE_ROOT_PORTS_MAX = 128;

const KernelBootContainer = Type.Object(
  {
    image: Type.String(),
    kernelPath: Type.Optional(Type.String()),
    initrdPath: Type.Optional(Type.String()),
  },
  OPEN,
);

export const DomainSpecSchema = Type.Object(
  {
    machine: Type.Optional(Type.Object({ type: Type.Optional(Type.String()) }, OPEN)),
    cpu: Type.Optional(
      Type.Object(
        {
          cores: Type.Optional(Type.Integer({ minimum: 1 })),
          sockets: Type.Optional(Type.Integer({ minimum: 1 })),
          threads: Type.Optional(Type.Integer({ minimum: 1 })),
        },
        OPEN,
      ),
    ),
    memory: Type.Optional(
      Type.Object(
        { guest: Type.Optional(Type.String({ description: "For example 128Mi." })) },
        OPEN,
      ),
    ),
    resources: Type.Optional(
      Type.Object(
        { requests: Type.Optional(Type.Object({ memory: Type.Optional(Type.String()) }, OPEN)) },
        OPEN,
      ),
    ),
    firmware: Type.Optional(
      Type.Object(
        {
          kernelBoot: Type.Optional(
            Type.Object(
              {
                kernelArgs: Type.Optional(Type.String()),
                container: Type.Optional(KernelBootContainer),
              },
              OPEN,
            ),
          ),
        },
        OPEN,
      ),
    ),
    devices: Type.Optional(
      Type.Object(
        {
          interfaces: Type.Optional(
            Type.Array(IfaceSchema, {
              "x-kubernetes-list-type": "map",
              "x-kubernetes-list-map-keys": ["name"],
            }),
          ),
          networkInterfaceMultiqueue: Type.Optional(
            Type.Boolean({ description: "Interfaces get a pair of queues for each vCPU." }),
          ),
          pcieRootPorts: Type.Optional(
            Type.Integer({
              minimum: 0,
              maximum: PCIE_ROOT_PORTS_MAX,
              description:
                "Interfaces that can be plugged while the VM runs, beside those it starts with; machine type q35.",
            }),
          ),
        },
        OPEN,
      ),
    ),
  },
  OPEN,
);

export const VmiSpecSchema = Type.Object(
  {
    domain: DomainSpecSchema,
    networks: Type.Optional(
      Type.Array(NetworkSchema, {
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
      }),
    ),
    terminationGracePeriodSeconds: Type.Optional(Type.Integer({ minimum: 0 })),
    nodeSelector: Type.Optional(Type.Record(Type.String(), Type.String())),
  },
  OPEN,
);

/** What a VMI is to be. */
export type VmiSpec = Static<typeof VmiSpecSchema>;

export const ATTACHMENT_STATES = ["Requested", "Attached", "Failed", "Removing"] as const;

export const AttachmentSchema = Type.Object(
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
    deviceInfo: Type.Optional(Type.Unsafe<unknown>({ type: "object", ...OPEN })),
    reason: Type.Optional(Type.String()),
    message: Type.Optional(Type.String()),
  },
  { description: "What the pod has for one interface; written by virt-controller." },
);

/** What CNI made of an iface in the pod, as virt-controller tells virt-handler. */
export type Attachment = Static<typeof AttachmentSchema>;

export const PLUG_PHASES = [
  "Pending",
  "PodAttaching",
  "PodAttached",
  "Wiring",
  "Attaching",
  "Ready",
] as const;
export const UNPLUG_PHASES = ["Detaching", "Unwiring", "PodDetaching"] as const;

/** Where one iface is in its life. */
export type IfacePhase = (typeof PLUG_PHASES)[number] | (typeof UNPLUG_PHASES)[number];

const IfaceStatusSchema = Type.Object(
  {
    name: Type.Optional(Type.String()),
    mac: Type.Optional(Type.String()),
    ipAddress: Type.Optional(Type.String()),
    ipAddresses: Type.Optional(Type.Array(Type.String())),
    podInterfaceName: Type.Optional(Type.String()),
    interfaceName: Type.Optional(Type.String()),
    infoSource: Type.Optional(Type.String()),
    queueCount: Type.Optional(Type.Integer()),
    linkState: Type.Optional(Type.String()),
    pciAddress: Type.Optional(Type.String({ description: "For example 0000:02:00.0." })),
    hotplug: Type.Optional(
      Type.Object({
        type: Type.Unsafe<"Plug" | "Unplug">({ type: "string", enum: ["Plug", "Unplug"] }),
        phase: Type.Unsafe<IfacePhase>({
          type: "string",
          enum: [...PLUG_PHASES, ...UNPLUG_PHASES],
        }),
        reason: Type.Optional(Type.String()),
        message: Type.Optional(Type.String()),
        since: Type.Optional(Type.String({ format: "date-time" })),
        attempts: Type.Optional(Type.Integer()),
      }),
    ),
  },
  OPEN,
);

/** What the node sees of one iface. */
export type IfaceStatus = Static<typeof IfaceStatusSchema>;

export const CONDITIONS_SCHEMA = Type.Array(
  Type.Object({
    type: Type.String(),
    status: Type.Unsafe<"True" | "False" | "Unknown">({
      type: "string",
      enum: ["True", "False", "Unknown"],
    }),
    reason: Type.Optional(Type.String()),
    message: Type.Optional(Type.String()),
    lastProbeTime: Type.Optional(Type.Unsafe<string | null>({ type: "string", nullable: true })),
    lastTransitionTime: Type.Optional(Type.String()),
  }),
);

export const VMI_PHASES = [
  "",
  "Pending",
  "Scheduling",
  "Scheduled",
  "Running",
  "Succeeded",
  "Failed",
  "Unknown",
] as const;

/** Phase of a VMI. Source: KubeVirt VirtualMachineInstancePhase. */
export type VmiPhase = (typeof VMI_PHASES)[number];

export const VmiStatusSchema = Type.Object(
  {
    phase: Type.Optional(Type.Unsafe<VmiPhase>({ type: "string", enum: [...VMI_PHASES] })),
    reason: Type.Optional(Type.String()),
    nodeName: Type.Optional(Type.String()),
    activePods: Type.Optional(Type.Record(Type.String(), Type.String())),
    attachments: Type.Optional(Type.Array(AttachmentSchema)),
    interfaces: Type.Optional(Type.Array(IfaceStatusSchema)),
    pciePorts: Type.Optional(Type.Object({ total: Type.Integer(), free: Type.Integer() })),
    conditions: Type.Optional(CONDITIONS_SCHEMA),
    observedGeneration: Type.Optional(Type.Integer()),
  },
  OPEN,
);

/** What a VMI is; each field has one writer, see docs/reference/ownership.md. */
export type VmiStatus = Static<typeof VmiStatusSchema>;

/** A running VM. */
export interface VirtualMachineInstance extends KubeObject {
  readonly spec: VmiSpec;
  readonly status?: VmiStatus;
}

/** Whether its guest has ended for ever. Source: KubeVirt VirtualMachineInstance.IsFinal(). */
export function isVmiFinal(vmi: VirtualMachineInstance): boolean {
  return vmi.status?.phase === "Succeeded" || vmi.status?.phase === "Failed";
}
