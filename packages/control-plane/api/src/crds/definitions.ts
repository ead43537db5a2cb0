// SPDX-License-Identifier: Apache-2.0
// CustomResourceDefinitions of Patchbay, built from the schemas of the types.
import { Type } from "../fields/schema.ts";
import { KubeVirtSpecSchema, KubeVirtStatusSchema } from "../kinds/kubevirt-config.ts";
import type { KubeObject } from "../kinds/kubernetes/meta.ts";
import { InstancetypeSpecSchema, PreferenceSpecSchema } from "../kinds/instancetype.ts";
import {
  EXPORT_GROUP,
  INSTANCETYPE_GROUP,
  KUBEVIRT_GROUP,
  MIGRATIONS_GROUP,
  NAD_GROUP,
  PART_OF_LABEL,
  POOL_GROUP,
  PRODUCT,
} from "../names.ts";
import { PRESERVE_UNKNOWN_FIELDS } from "../kinds/network.ts";
import { toStructuralSchema, withoutDescriptions, type StructuralSchema } from "./structural-schema.ts";
import { MigrationSpecSchema, MigrationStatusSchema, MigrationPolicySpecSchema } from "../kinds/migration.ts";
import {
  IpamClaimSpecSchema,
  IpamClaimStatusSchema,
  MultiNetworkPolicySpecSchema,
  NadSpecSchema,
  NadStatusSchema,
} from "../kinds/nad.ts";
import { VmSpecSchema, VmStatusSchema } from "../kinds/vm.ts";
import { withLimits } from "../limits.ts";
import { VmiSpecSchema } from "../kinds/vmi-spec.ts";
import { VmiStatusSchema } from "../kinds/vmi.ts";

/** Column of `kubectl get`. Columns with priority 1 appear with `-o wide` only. */
interface PrinterColumn {
  readonly name: string;
  readonly type: "string" | "integer" | "date";
  readonly jsonPath: string;
  readonly priority?: number;
}

/** Version of a kind. Source: Kubernetes CustomResourceDefinitionVersion. */
interface DefinitionVersion {
  readonly name: string;
  readonly served: boolean;
  readonly storage: boolean;
  readonly deprecated?: boolean;
  readonly deprecationWarning?: string;
  readonly schema: { readonly openAPIV3Schema: StructuralSchema };
  readonly subresources?: { readonly status: Readonly<Record<string, never>> };
  readonly additionalPrinterColumns?: readonly PrinterColumn[];
}

/** Definition of a kind. Source: Kubernetes apiextensions.k8s.io/v1. */
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
    readonly versions: readonly DefinitionVersion[];
    readonly conversion: { readonly strategy: "None" };
  };
}

interface Definition {
  readonly group: string;
  readonly version: string;
  readonly isClusterScoped?: boolean;
  /** Older versions, newest first. They have the same fields as the storage version. */
  readonly olderVersions?: readonly string[];
  readonly kind: string;
  readonly plural: string;
  readonly singular: string;
  readonly shortNames: readonly string[];
  readonly categories?: readonly string[];
  readonly columns: readonly PrinterColumn[];
  readonly spec: { readonly schema: object; readonly required: boolean };
  readonly status?: object;
}

const AGE_COLUMN: PrinterColumn = {
  name: "Age",
  type: "date",
  jsonPath: ".metadata.creationTimestamp",
};
function buildConditionColumn(name: string, type: string): PrinterColumn {
  return { name, type: "string", jsonPath: `.status.conditions[?(@.type=='${type}')].status` };
}

const READY_COLUMN = buildConditionColumn("Ready", "Ready");
const PHASE_COLUMN: PrinterColumn = { name: "Phase", type: "string", jsonPath: ".status.phase" };

const PROBLEM_COLUMNS: readonly PrinterColumn[] = [
  { name: "Problem", type: "string", jsonPath: ".status.problems[0].reason" },
  { name: "Node", type: "string", jsonPath: ".status.problems[0].node", priority: 1 },
  { name: "Message", type: "string", jsonPath: ".status.problems[0].message", priority: 1 },
];

/** Deprecated versions of KubeVirt's kinds. Source: KubeVirt v0.8 to v0.58 api, ApiSupportedVersions. */
const DEPRECATED_VERSIONS = ["v1alpha3", "v1alpha2"] as const;

type DefinitionNames = Pick<Definition, "kind" | "plural" | "singular" | "shortNames">;

function buildNames(kind: string, shortNames: readonly string[]): DefinitionNames {
  const singular = kind.toLowerCase();
  return { kind, plural: `${singular}s`, singular, shortNames };
}

function defineInstancetypeKind(
  name: string,
  shortNames: readonly string[],
  schema: object,
): Definition {
  return {
    group: INSTANCETYPE_GROUP,
    version: "v1beta1",
    ...buildNames(`VirtualMachine${name}`, shortNames),
    isClusterScoped: name.startsWith("Cluster"),
    categories: ["all"],
    columns: [AGE_COLUMN],
    spec: { schema, required: true },
  };
}

function defineInstancetype(name: string, shortNames: readonly string[]): Definition {
  return defineInstancetypeKind(name, shortNames, InstancetypeSpecSchema);
}

function definePreference(name: string, shortNames: readonly string[]): Definition {
  return defineInstancetypeKind(name, shortNames, PreferenceSpecSchema);
}

/** Defines an unsupported kind of KubeVirt, so that virt-api can reject its objects with an explanation. */
function defineRejectedKind(
  group: string,
  kind: string,
  options: Pick<Definition, "version" | "shortNames" | "olderVersions">,
): Definition {
  const schema = Type.Object({}, PRESERVE_UNKNOWN_FIELDS);
  return {
    group,
    ...options,
    ...buildNames(kind, options.shortNames),
    columns: [AGE_COLUMN],
    spec: { schema, required: false },
  };
}

/** Definitions with KubeVirt's names, columns and order. Source: KubeVirt pkg/virt-operator/resource/generate/components/crds.go. */
const DEFINITIONS: readonly Definition[] = [
  {
    group: KUBEVIRT_GROUP,
    version: "v1",
    olderVersions: DEPRECATED_VERSIONS,
    kind: "VirtualMachine",
    plural: "virtualmachines",
    singular: "virtualmachine",
    shortNames: ["vm", "vms"],
    categories: ["all"],
    columns: [AGE_COLUMN, { name: "Status", type: "string", jsonPath: ".status.printableStatus" }, READY_COLUMN],
    spec: { schema: VmSpecSchema, required: true },
    status: VmStatusSchema,
  },
  {
    group: KUBEVIRT_GROUP,
    version: "v1",
    olderVersions: DEPRECATED_VERSIONS,
    kind: "VirtualMachineInstance",
    plural: "virtualmachineinstances",
    singular: "virtualmachineinstance",
    shortNames: ["vmi", "vmis"],
    categories: ["all"],
    columns: [
      AGE_COLUMN,
      PHASE_COLUMN,
      { name: "IP", type: "string", jsonPath: ".status.interfaces[0].ipAddress" },
      { name: "NodeName", type: "string", jsonPath: ".status.nodeName" },
      READY_COLUMN,
      { ...buildConditionColumn("Live-Migratable", "LiveMigratable"), priority: 1 },
      { ...buildConditionColumn("Paused", "Paused"), priority: 1 },
      { name: "Ports", type: "integer", jsonPath: ".status.pciePorts.total", priority: 1 },
      { name: "FreePorts", type: "integer", jsonPath: ".status.pciePorts.free", priority: 1 },
    ],
    spec: { schema: VmiSpecSchema, required: true },
    status: VmiStatusSchema,
  },
  {
    group: KUBEVIRT_GROUP,
    version: "v1",
    olderVersions: DEPRECATED_VERSIONS,
    kind: "VirtualMachineInstanceMigration",
    plural: "virtualmachineinstancemigrations",
    singular: "virtualmachineinstancemigration",
    shortNames: ["vmim", "vmims"],
    categories: ["all"],
    columns: [PHASE_COLUMN, { name: "VMI", type: "string", jsonPath: ".spec.vmiName" }],
    spec: { schema: MigrationSpecSchema, required: true },
    status: MigrationStatusSchema,
  },
  {
    group: MIGRATIONS_GROUP,
    version: "v1alpha1",
    isClusterScoped: true,
    kind: "MigrationPolicy",
    plural: "migrationpolicies",
    singular: "migrationpolicy",
    shortNames: [],
    categories: ["all"],
    columns: [AGE_COLUMN],
    spec: { schema: MigrationPolicySpecSchema, required: true },
  },
  {
    group: KUBEVIRT_GROUP,
    version: "v1",
    olderVersions: DEPRECATED_VERSIONS,
    kind: "KubeVirt",
    plural: "kubevirts",
    singular: "kubevirt",
    shortNames: ["kv", "kvs"],
    categories: ["all"],
    columns: [AGE_COLUMN, PHASE_COLUMN],
    spec: { schema: KubeVirtSpecSchema, required: true },
    status: KubeVirtStatusSchema,
  },
  defineInstancetype("Instancetype", ["vminstancetype", "vminstancetypes", "vmf", "vmfs"]),
  defineInstancetype("ClusterInstancetype", [
    "vmclusterinstancetype",
    "vmclusterinstancetypes",
    "vmcf",
    "vmcfs",
  ]),
  definePreference("Preference", ["vmpref", "vmprefs", "vmp", "vmps"]),
  definePreference("ClusterPreference", ["vmcp", "vmcps"]),
  defineRejectedKind(KUBEVIRT_GROUP, "VirtualMachineInstanceReplicaSet", {
    version: "v1",
    olderVersions: ["v1alpha3"],
    shortNames: ["vmirs", "vmirss"],
  }),
  defineRejectedKind(POOL_GROUP, "VirtualMachinePool", {
    version: "v1beta1",
    olderVersions: ["v1alpha1"],
    shortNames: ["vmpool", "vmpools"],
  }),
  defineRejectedKind(EXPORT_GROUP, "VirtualMachineExport", {
    version: "v1",
    olderVersions: ["v1beta1", "v1alpha1"],
    shortNames: ["vmexport", "vmexports"],
  }),
  {
    group: NAD_GROUP,
    version: "v1",
    kind: "NetworkAttachmentDefinition",
    plural: "network-attachment-definitions",
    singular: "network-attachment-definition",
    shortNames: ["net-attach-def", "nad"],
    columns: [...PROBLEM_COLUMNS, AGE_COLUMN],
    spec: { schema: NadSpecSchema, required: false },
    status: NadStatusSchema,
  },
  {
    group: NAD_GROUP,
    version: "v1alpha1",
    kind: "IPAMClaim",
    plural: "ipamclaims",
    singular: "ipamclaim",
    shortNames: [],
    columns: [
      { name: "Network", type: "string", jsonPath: ".spec.network" },
      { name: "IPs", type: "string", jsonPath: ".status.ips" },
      AGE_COLUMN,
    ],
    spec: { schema: IpamClaimSpecSchema, required: false },
    status: IpamClaimStatusSchema,
  },
  {
    group: NAD_GROUP,
    version: "v1beta1",
    kind: "MultiNetworkPolicy",
    plural: "multi-networkpolicies",
    singular: "multi-networkpolicy",
    shortNames: ["multi-policy"],
    columns: [AGE_COLUMN],
    spec: { schema: MultiNetworkPolicySpecSchema, required: false },
  },
];

function buildSpecSchema({ kind, spec }: Definition): StructuralSchema {
  // The second conversion drops limits that a CRD cannot express.
  return toStructuralSchema(withLimits(kind, toStructuralSchema(spec.schema)));
}

function buildObjectSchema(definition: Definition): StructuralSchema {
  return {
    type: "object",
    ...(definition.spec.required ? { required: ["spec"] } : {}),
    properties: {
      apiVersion: { type: "string" },
      kind: { type: "string" },
      metadata: { type: "object" },
      spec: buildSpecSchema(definition),
      ...(definition.status === undefined ? {} : { status: toStructuralSchema(definition.status) }),
    },
  };
}

function buildStorageVersion(definition: Definition): DefinitionVersion {
  return {
    name: definition.version,
    served: true,
    storage: true,
    schema: { openAPIV3Schema: buildObjectSchema(definition) },
    ...(definition.status === undefined ? {} : { subresources: { status: {} } }),
    additionalPrinterColumns: definition.columns,
  };
}

function listVersions(definition: Definition): readonly DefinitionVersion[] {
  const { group, kind, olderVersions = [] } = definition;
  const storageVersion = buildStorageVersion(definition);
  const schema = { openAPIV3Schema: withoutDescriptions(storageVersion.schema.openAPIV3Schema) };
  const deprecatedVersions = olderVersions.map((name) => ({
    ...storageVersion,
    name,
    storage: false,
    deprecated: true,
    deprecationWarning: `${group}/${name} ${kind} is an older version; write apiVersion: ${group}/${storageVersion.name}`,
    schema,
  }));
  return [storageVersion, ...deprecatedVersions];
}

function toCrd(definition: Definition): CustomResourceDefinition {
  const { group, isClusterScoped = false, kind, plural, singular, shortNames, categories } = definition;
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `${plural}.${group}`, labels: { [PART_OF_LABEL]: PRODUCT } },
    spec: {
      group,
      scope: isClusterScoped ? "Cluster" : "Namespaced",
      names: {
        plural,
        singular,
        kind,
        listKind: `${kind}List`,
        shortNames,
        ...(categories === undefined ? {} : { categories }),
      },
      versions: listVersions(definition),
      conversion: { strategy: "None" },
    },
  };
}

export function customResourceDefinitions(): readonly CustomResourceDefinition[] {
  return DEFINITIONS.map(toCrd);
}
