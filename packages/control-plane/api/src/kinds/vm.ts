// SPDX-License-Identifier: Apache-2.0
// VirtualMachine. Source: KubeVirt api/core/v1 types.go.
import type { Static } from "typebox";
import { Type } from "../fields/schema.ts";
import { map, text } from "../fields/notation.ts";
import { TEMPLATE_METADATA_FIELDS, UNACTED_VM_FIELDS } from "../fields/unacted-fields.ts";
import { DataVolumeTemplateSchema } from "./guest/disks.ts";
import { type KubeObject, CONDITIONS_SCHEMA } from "./kubernetes/meta.ts";
import { IFACE_HISTORY_SCHEMA } from "./iface-status.ts";
import { PRESERVE_UNKNOWN_FIELDS } from "./network.ts";
import { VmiSpecSchema } from "./vmi-spec.ts";

const RUN_STRATEGIES = ["Always", "Halted", "Manual", "RerunOnFailure", "Once"] as const;

/** Source: KubeVirt VirtualMachineRunStrategy. */
export type RunStrategy = (typeof RUN_STRATEGIES)[number];

const stringMap = (description: string) =>
  Type.Unsafe<Readonly<Record<string, string>>>(map(description, text("Value.")));

const TemplateMetadataSchema = Type.Object(
  {
    labels: Type.Optional(stringMap("Labels of the VMI and of its pod.")),
    annotations: Type.Optional(stringMap("Annotations of the VMI.")),
    ...TEMPLATE_METADATA_FIELDS,
  },
  { nullable: true, description: "Metadata of the VMI." },
);

const MATCHER_FIELDS = {
  name: Type.Optional(Type.String({ description: "Name." })),
  kind: Type.Optional(Type.String({ description: "Kind; the cluster-wide kind when absent." })),
  inferFromVolume: Type.Optional(
    Type.String({
      description:
        "Volume whose claim or DataVolume has labels with name and kind, which are written into these fields.",
    }),
  ),
  inferFromVolumeFailurePolicy: Type.Optional(
    Type.String({
      description: "Reject; or Ignore: without such labels inferFromVolume has no effect.",
    }),
  ),
};

const matcher = (description: string) =>
  Type.Optional(
    Type.Object(
      {
        ...MATCHER_FIELDS,
        revisionName: Type.Optional(
          Type.String({
            description:
              "ControllerRevision that is used; when absent, one is created at the first use.",
          }),
        ),
      },
      { description },
    ),
  );

/** Reference to an instancetype or preference. Source: KubeVirt InstancetypeMatcher, PreferenceMatcher. */
export type Matcher = NonNullable<VmSpec["instancetype"]>;

export const VmSpecSchema = Type.Object(
  {
    running: Type.Optional(
      Type.Boolean({ description: "Older form of runStrategy: Always or Halted." }),
    ),
    runStrategy: Type.Optional(
      Type.Unsafe<RunStrategy>({
        type: "string",
        enum: [...RUN_STRATEGIES],
        description: "When the VM runs.",
      }),
    ),
    template: Type.Object(
      {
        metadata: Type.Optional(TemplateMetadataSchema),
        spec: VmiSpecSchema,
      },
      { description: "The VMI that is created when the VM runs." },
    ),
    dataVolumeTemplates: Type.Optional(
      Type.Array(DataVolumeTemplateSchema, {
        description:
          "DataVolumes that are created with the VM, if CDI or a standalone machine serves that kind.",
      }),
    ),
    instancetype: matcher("Instancetype with the VM's size."),
    preference: matcher("Preference with defaults for unset fields of the template."),
    ...UNACTED_VM_FIELDS,
  },
  { description: "When the VM runs, and as what." },
);

/** Specification that users write; docs/reference/ownership.md lists other writers. */
export type VmSpec = Static<typeof VmSpecSchema>;

const PcieTopologySchema = Type.Object(
  {
    version: Type.Integer({ description: "Version of the layout rules." }),
    interfaces: Type.Array(
      Type.Object({
        name: Type.String(),
        pciAddress: Type.String({ description: "For example 0000:02:00.0." }),
      }),
    ),
    devices: Type.Optional(
      Type.Array(
        Type.Object({
          name: Type.String({ description: "For example disk:root." }),
          pciAddress: Type.String(),
        }),
        { description: "Devices other than interfaces." },
      ),
    ),
  },
  { description: "PCI addresses of the devices, so that no start changes them." },
);

/** PCI addresses that the VM's devices retain across restarts. */
export type PcieTopology = Static<typeof PcieTopologySchema>;

const MacAddressesSchema = Type.Array(
  Type.Object({
    name: Type.String({ description: "Name of the interface." }),
    networkName: Type.Optional(
      Type.String({
        description: "NetworkAttachmentDefinition, as NAMESPACE/NAME. Unset for the pod's network.",
      }),
    ),
    macAddress: Type.String({ description: "For example 02:11:22:33:44:55." }),
  }),
  {
    description:
      "MACs of interfaces for which the specification names none. The next start requests them again.",
  },
);

const IpAddressesSchema = Type.Array(
  Type.Object({
    name: Type.String({ description: "Name of the interface." }),
    networkName: Type.String({ description: "NetworkAttachmentDefinition, as NAMESPACE/NAME." }),
    ips: Type.Array(Type.String({ description: "For example 10.77.1.5." })),
  }),
  {
    description:
      "Addresses that networks assigned to interfaces; the next start requests them again.",
  },
);

const StateChangeRequestSchema = Type.Object(
  {
    action: Type.Unsafe<"Start" | "Stop">({ type: "string", enum: ["Start", "Stop"] }),
    uid: Type.Optional(Type.String({ description: "The VMI that is to be stopped." })),
    data: Type.Optional(
      Type.Record(Type.String(), Type.String(), {
        description: 'Of a start, paused: "true": the guest waits to be resumed.',
      }),
    ),
  },
  PRESERVE_UNKNOWN_FIELDS,
);

/** Request to start or stop the VM. Source: KubeVirt VirtualMachineStateChangeRequest. */
export type StateChangeRequest = Static<typeof StateChangeRequestSchema>;

const StartFailureSchema = Type.Object(
  {
    consecutiveFailCount: Type.Integer(),
    lastFailedVMIUID: Type.String(),
    retryAfterTimestamp: Type.String({ description: "Earliest time of the next start." }),
  },
  { description: "Consecutive guests that ended soon after their start." },
);

/** Backoff of a VM whose guest repeatedly ends soon after its start. Source: KubeVirt VirtualMachineStartFailure. */
export type StartFailure = Static<typeof StartFailureSchema>;

const matcherRef = (description: string) =>
  Type.Optional(
    Type.Object(
      {
        ...MATCHER_FIELDS,
        controllerRevisionRef: Type.Optional(
          Type.Object({ name: Type.Optional(Type.String()) }, { description: "What is used." }),
        ),
      },
      { description },
    ),
  );

/** Revision of an instancetype or preference that the VM uses. Source: KubeVirt InstancetypeStatusRef. */
export type MatcherRef = NonNullable<VmStatus["instancetypeRef"]>;

export const VmStatusSchema = Type.Object(
  {
    created: Type.Optional(Type.Boolean()),
    ready: Type.Optional(Type.Boolean()),
    printableStatus: Type.Optional(Type.String()),
    conditions: Type.Optional(CONDITIONS_SCHEMA),
    interfaceHistory: Type.Optional(IFACE_HISTORY_SCHEMA),
    instancetypeRef: matcherRef("The instancetype that is used."),
    ipAddresses: Type.Optional(IpAddressesSchema),
    macAddresses: Type.Optional(MacAddressesSchema),
    observedGeneration: Type.Optional(Type.Integer()),
    pcieTopology: Type.Optional(PcieTopologySchema),
    preferenceRef: matcherRef("The preference that is used."),
    runStrategy: Type.Optional(
      Type.Unsafe<RunStrategy>({
        type: "string",
        enum: [...RUN_STRATEGIES],
        description: "Run strategy of the last observation.",
      }),
    ),
    startFailure: Type.Optional(StartFailureSchema),
    stateChangeRequests: Type.Optional(Type.Array(StateChangeRequestSchema)),
  },
  PRESERVE_UNKNOWN_FIELDS,
);

/** Status of a VM; docs/reference/ownership.md lists the writer of each field. */
export type VmStatus = Static<typeof VmStatusSchema>;

export interface VirtualMachine extends KubeObject {
  readonly spec: VmSpec;
  readonly status?: VmStatus;
}

export function startsAutomatically(vm: VirtualMachine): boolean {
  return ["Always", "RerunOnFailure", "Once"].includes(runStrategyOf(vm));
}

/** Returns the run strategy. If unset, derives it from the older field `running`. Source: KubeVirt VirtualMachine.RunStrategy(). */
export function runStrategyOf(vm: VirtualMachine): RunStrategy {
  return vm.spec.runStrategy ?? (vm.spec.running === true ? "Always" : "Halted");
}
