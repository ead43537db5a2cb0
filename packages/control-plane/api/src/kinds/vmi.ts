// SPDX-License-Identifier: Apache-2.0
// VirtualMachineInstance and its status. Source: KubeVirt api/core/v1 types.go. Patchbay adds `attachments`, `hotplug`,
// `interfaceHistory` and `pciePorts`.
import type { Static } from "typebox";
import { Type } from "../fields/schema.ts";
import { type KubeObject, CONDITIONS_SCHEMA } from "./kubernetes/meta.ts";
import {
  ATTACHMENT_SCHEMA,
  IFACE_HISTORY_SCHEMA,
  HOTPLUG_TYPES,
  IFACE_PHASES,
  type HotplugType,
  type IfacePhase,
} from "./iface-status.ts";
import { MIGRATION_STATE_SCHEMA } from "./migration.ts";
import { BandwidthSchema, PRESERVE_UNKNOWN_FIELDS } from "./network.ts";
import type { VmiSpec } from "./vmi-spec.ts";

const ADDRESS_SOURCES = ["pod", "guest-agent", "pod, guest-agent", "learned"] as const;

/** Source of an interface's addresses: the CNI result (`pod`), the guest agent, both, or frames at the guest's tap (`learned`). */
export type AddressSource = (typeof ADDRESS_SOURCES)[number];

const IfaceStatusSchema = Type.Object(
  {
    name: Type.Optional(Type.String()),
    mac: Type.Optional(Type.String()),
    ipAddress: Type.Optional(Type.String()),
    ipAddresses: Type.Optional(Type.Array(Type.String())),
    podInterfaceName: Type.Optional(Type.String()),
    otherPodInterfaceNames: Type.Optional(
      Type.Array(Type.String(), {
        description: "Other NICs in the pod that the node still uses or is about to use.",
      }),
    ),
    interfaceName: Type.Optional(Type.String()),
    infoSource: Type.Optional(Type.String()),
    queueCount: Type.Optional(Type.Integer()),
    linkState: Type.Optional(Type.String()),
    pciAddress: Type.Optional(Type.String({ description: "For example 0000:02:00.0." })),
    mtu: Type.Optional(Type.Integer({ description: "Of the guest's NIC, bytes." })),
    bandwidth: Type.Optional(BandwidthSchema),
    addressInfo: Type.Optional(
      Type.Object(
        {
          source: Type.Unsafe<AddressSource>({ type: "string", enum: [...ADDRESS_SOURCES] }),
          since: Type.String({
            format: "date-time",
            description: "When they were first reported.",
          }),
          silentSince: Type.Optional(
            Type.String({
              format: "date-time",
              description:
                "When the guest agent stopped responding; the addresses are those that it reported last.",
            }),
          ),
        },
        { description: "Source of the addresses, and time of the report." },
      ),
    ),
    hotplug: Type.Optional(
      Type.Object({
        type: Type.Unsafe<HotplugType>({ type: "string", enum: [...HOTPLUG_TYPES] }),
        phase: Type.Unsafe<IfacePhase>({ type: "string", enum: [...IFACE_PHASES] }),
        reason: Type.Optional(Type.String()),
        message: Type.Optional(Type.String()),
        since: Type.Optional(Type.String({ format: "date-time" })),
        attempts: Type.Optional(Type.Integer()),
      }),
    ),
  },
  PRESERVE_UNKNOWN_FIELDS,
);

/** Status of an interface, which virt-handler writes. */
export type IfaceStatus = Static<typeof IfaceStatusSchema>;

const VMI_PHASES = [
  "",
  "Pending",
  "Scheduling",
  "Scheduled",
  "Running",
  "Succeeded",
  "Failed",
  "Unknown",
] as const;

/** Source: KubeVirt VirtualMachineInstancePhase. */
export type VmiPhase = (typeof VMI_PHASES)[number];

const BlockedReasonSchema = Type.Object(
  {
    reason: Type.String({ description: "Stable, in CamelCase; docs/reference/phases.md." }),
    message: Type.String(),
    attempts: Type.Integer({ description: "Number of consecutive attempts." }),
    since: Type.String({ format: "date-time" }),
  },
  {
    description: "Why the guest is not started or cannot be changed; absent if nothing blocks it.",
  },
);

/** Status of a volume, which virt-controller writes. Source: KubeVirt VolumeStatus. */
const VolumeStatusSchema = Type.Object(
  {
    name: Type.String({ description: "Name of the volume." }),
    target: Type.String({ description: "Name of the disk in the guest's domain; empty: unknown." }),
    persistentVolumeClaimInfo: Type.Optional(
      Type.Object(
        {
          claimName: Type.Optional(Type.String()),
          volumeMode: Type.Optional(Type.String({ description: "Filesystem or Block." })),
          accessModes: Type.Optional(Type.Array(Type.String())),
          capacity: Type.Optional(Type.Record(Type.String(), Type.String())),
          requests: Type.Optional(Type.Record(Type.String(), Type.String())),
        },
        PRESERVE_UNKNOWN_FIELDS,
      ),
    ),
  },
  PRESERVE_UNKNOWN_FIELDS,
);

/** Data that the guest agent reports and virt-handler writes. Source: KubeVirt VirtualMachineInstanceGuestOSInfo. */
const GuestOsInfoSchema = Type.Object(
  {
    name: Type.Optional(Type.String({ description: "For example Debian GNU/Linux." })),
    id: Type.Optional(Type.String({ description: "For example debian." })),
    prettyName: Type.Optional(Type.String({ description: "Name and version for display." })),
    version: Type.Optional(Type.String({ description: "Version for display." })),
    versionId: Type.Optional(Type.String({ description: "For example 12." })),
    kernelRelease: Type.Optional(Type.String({ description: "Output of uname -r." })),
    kernelVersion: Type.Optional(Type.String({ description: "Output of uname -v." })),
    machine: Type.Optional(Type.String({ description: "Architecture; output of uname -m." })),
  },
  { description: "The guest's operating system, as its agent reports it." },
);

export type GuestOsInfo = Static<typeof GuestOsInfoSchema>;

export const VmiStatusSchema = Type.Object(
  {
    phase: Type.Optional(Type.Unsafe<VmiPhase>({ type: "string", enum: [...VMI_PHASES] })),
    reason: Type.Optional(Type.String()),
    nodeName: Type.Optional(Type.String()),
    phaseTransitionTimestamps: Type.Optional(
      Type.Array(
        Type.Object({
          phase: Type.Unsafe<VmiPhase>({ type: "string", enum: [...VMI_PHASES] }),
          phaseTransitionTimestamp: Type.String({ format: "date-time" }),
        }),
        { description: "When virt-controller first observed each phase." },
      ),
    ),
    evacuationNodeName: Type.Optional(
      Type.String({
        description: "The node that is being drained, from which the guest must migrate.",
      }),
    ),
    drainedNodeName: Type.Optional(
      Type.String({
        description:
          "That node, if it was cordoned. When it is uncordoned, the guest no longer needs to migrate.",
      }),
    ),
    activePods: Type.Optional(Type.Record(Type.String(), Type.String())),
    attachments: Type.Optional(Type.Array(ATTACHMENT_SCHEMA)),
    interfaces: Type.Optional(Type.Array(IfaceStatusSchema)),
    interfaceHistory: Type.Optional(IFACE_HISTORY_SCHEMA),
    unlistedGuestInterfaces: Type.Optional(
      Type.Integer({
        description: "Number of the guest's own links beyond the 10 in `interfaces`.",
      }),
    ),
    guestOSInfo: Type.Optional(GuestOsInfoSchema),
    pciePorts: Type.Optional(Type.Object({ total: Type.Integer(), free: Type.Integer() })),
    volumeStatus: Type.Optional(Type.Array(VolumeStatusSchema)),
    migrationState: Type.Optional(MIGRATION_STATE_SCHEMA),
    blockedReason: Type.Optional(BlockedReasonSchema),
    conditions: Type.Optional(CONDITIONS_SCHEMA),
    observedGeneration: Type.Optional(Type.Integer()),
  },
  PRESERVE_UNKNOWN_FIELDS,
);

/** Status of a VMI; docs/reference/ownership.md lists the writer of each field. */
export type VmiStatus = Static<typeof VmiStatusSchema>;

/** One run of a VM, with the guest and its launcher pod. */
export interface VirtualMachineInstance extends KubeObject {
  readonly spec: VmiSpec;
  readonly status?: VmiStatus;
}

export function isFinalPhase(phase: VmiPhase | undefined): boolean {
  return phase === "Succeeded" || phase === "Failed";
}

/** Checks whether the VMI has ended. Source: KubeVirt VirtualMachineInstance.IsFinal(). */
export function isVmiFinal(vmi: VirtualMachineInstance): boolean {
  return isFinalPhase(vmi.status?.phase);
}
