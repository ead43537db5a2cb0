// SPDX-License-Identifier: Apache-2.0
// Which CustomResourceDefinitions Patchbay brings; made from the same schemas as the types.
import { Type } from "typebox";
import { KubeVirtSpecSchema, KubeVirtStatusSchema } from "../kinds/kubevirt-config.ts";
import type { KubeObject } from "../kinds/meta.ts";
import { KUBEVIRT_GROUP, NAD_GROUP, PART_OF_LABEL, PRODUCT } from "../names.ts";
import { OPEN } from "../kinds/network.ts";
import { structuralSchemaOf, type StructuralSchema } from "./structural-schema.ts";
import { VmSpecSchema, VmStatusSchema } from "../kinds/vm.ts";
import { VmiSpecSchema } from "../kinds/vmi-spec.ts";
import { VmiStatusSchema } from "../kinds/vmi.ts";

/** A column of `kubectl get`; priority 1 shows it with `-o wide` only. */
interface PrinterColumn {
  readonly name: string;
  readonly type: "string" | "integer" | "date";
  readonly jsonPath: string;
  readonly priority?: number;
}

/** A CustomResourceDefinition with one version. Source: Kubernetes apiextensions.k8s.io/v1. */
interface CustomResourceDefinition extends KubeObject {
  readonly spec: {
    readonly group: string;
    readonly scope: "Namespaced" | "Cluster";
    readonly names: {
      readonly plural: string;
      readonly singular: string;
      readonly kind: string;
      readonly listKind: string;
      readonly shortNames: readonly string[];
      readonly categories?: readonly string[];
    };
    readonly versions: readonly {
      readonly name: string;
      readonly served: boolean;
      readonly storage: boolean;
      readonly schema: { readonly openAPIV3Schema: StructuralSchema };
      readonly subresources?: { readonly status: Readonly<Record<string, never>> };
      readonly additionalPrinterColumns?: readonly PrinterColumn[];
    }[];
  };
}

interface Definition {
  readonly group: string;
  readonly kind: string;
  readonly plural: string;
  readonly singular: string;
  readonly shortNames: readonly string[];
  readonly categories?: readonly string[];
  readonly columns: readonly PrinterColumn[];
  readonly spec: { readonly schema: object; readonly required: boolean };
  readonly status?: object;
}

const AGE: PrinterColumn = {
  name: "Age",
  type: "date",
  jsonPath: ".metadata.creationTimestamp",
};
const READY: PrinterColumn = {
  name: "Ready",
  type: "string",
  jsonPath: ".status.conditions[?(@.type=='Ready')].status",
};
const PHASE: PrinterColumn = { name: "Phase", type: "string", jsonPath: ".status.phase" };

// Thin for now: enough for clients that ask for a migration to be understood. Source: KubeVirt api/core/v1 types.go.
const MigrationSpecSchema = Type.Object({ vmiName: Type.Optional(Type.String()) }, OPEN);
const MigrationStatusSchema = Type.Object({ phase: Type.Optional(Type.String()) }, OPEN);
const NadSpecSchema = Type.Object({
  config: Type.Optional(Type.String({ description: "CNI configuration as JSON text." })),
});

/** Names, columns and their order are KubeVirt's. Source: KubeVirt pkg/virt-operator/resource/generate/components/crds.go. */
const DEFINITIONS: readonly Definition[] = [
  {
    group: KUBEVIRT_GROUP,
    kind: "VirtualMachine",
    plural: "virtualmachines",
    singular: "virtualmachine",
    shortNames: ["vm", "vms"],
    categories: ["all"],
    columns: [AGE, { name: "Status", type: "string", jsonPath: ".status.printableStatus" }, READY],
    spec: { schema: VmSpecSchema, required: true },
    status: VmStatusSchema,
  },
  {
    group: KUBEVIRT_GROUP,
    kind: "VirtualMachineInstance",
    plural: "virtualmachineinstances",
    singular: "virtualmachineinstance",
    shortNames: ["vmi", "vmis"],
    categories: ["all"],
    columns: [
      AGE,
      PHASE,
      { name: "IP", type: "string", jsonPath: ".status.interfaces[0].ipAddress" },
      { name: "NodeName", type: "string", jsonPath: ".status.nodeName" },
      READY,
      { name: "Ports", type: "integer", jsonPath: ".status.pciePorts.total", priority: 1 },
      { name: "FreePorts", type: "integer", jsonPath: ".status.pciePorts.free", priority: 1 },
    ],
    spec: { schema: VmiSpecSchema, required: true },
    status: VmiStatusSchema,
  },
  {
    group: KUBEVIRT_GROUP,
    kind: "VirtualMachineInstanceMigration",
    plural: "virtualmachineinstancemigrations",
    singular: "virtualmachineinstancemigration",
    shortNames: ["vmim", "vmims"],
    categories: ["all"],
    columns: [PHASE, { name: "VMI", type: "string", jsonPath: ".spec.vmiName" }],
    spec: { schema: MigrationSpecSchema, required: true },
    status: MigrationStatusSchema,
  },
  {
    group: KUBEVIRT_GROUP,
    kind: "KubeVirt",
    plural: "kubevirts",
    singular: "kubevirt",
    shortNames: ["kv", "kvs"],
    categories: ["all"],
    columns: [AGE, PHASE],
    spec: { schema: KubeVirtSpecSchema, required: true },
    status: KubeVirtStatusSchema,
  },
  {
    group: NAD_GROUP,
    kind: "NetworkAttachmentDefinition",
    plural: "network-attachment-definitions",
    singular: "network-attachment-definition",
    shortNames: ["net-attach-def"],
    columns: [AGE],
    spec: { schema: NadSpecSchema, required: false },
  },
];

function objectSchemaOf(definition: Definition): StructuralSchema {
  return {
    type: "object",
    ...(definition.spec.required ? { required: ["spec"] } : {}),
    properties: {
      apiVersion: { type: "string" },
      kind: { type: "string" },
      metadata: { type: "object" },
      spec: structuralSchemaOf(definition.spec.schema),
      ...(definition.status === undefined ? {} : { status: structuralSchemaOf(definition.status) }),
    },
  };
}

function toCrd(definition: Definition): CustomResourceDefinition {
  const { group, kind, plural, singular, shortNames, categories, columns } = definition;
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `${plural}.${group}`, labels: { [PART_OF_LABEL]: PRODUCT } },
    spec: {
      group,
      scope: "Namespaced",
      names: {
        plural,
        singular,
        kind,
        listKind: `${kind}List`,
        shortNames,
        ...(categories === undefined ? {} : { categories }),
      },
      versions: [
        {
          name: "v1",
          served: true,
          storage: true,
          schema: { openAPIV3Schema: objectSchemaOf(definition) },
          ...(definition.status === undefined ? {} : { subresources: { status: {} } }),
          additionalPrinterColumns: columns,
        },
      ],
    },
  };
}

/** Makes the definitions of every kind that is not Kubernetes' own, in the order in which they are applied. */
export function customResourceDefinitions(): readonly CustomResourceDefinition[] {
  return DEFINITIONS.map(toCrd);
}
