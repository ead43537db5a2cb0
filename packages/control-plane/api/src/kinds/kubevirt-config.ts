// SPDX-License-Identifier: Apache-2.0
// The cluster's configuration. Source: KubeVirt api/core/v1 types.go KubeVirtConfiguration.
import type { Static } from "typebox";
import { quantity } from "../fields/notation.ts";
import { Type } from "../fields/schema.ts";
import { type KubeObject, CONDITIONS_SCHEMA } from "./kubernetes/meta.ts";
import {
  PRESERVE_UNKNOWN_FIELDS,
  CLUSTER_PORT_SECURITY,
  QUEUES_MAX,
  readClusterSecurity,
  type ClusterSecurity,
} from "./network.ts";
import { PCIE_ROOT_PORTS_DEFAULT, PCIE_ROOT_PORTS_MAX } from "../values/pci.ts";
import { TENANT_POLICY } from "./tenant-policy.ts";
import { MIGRATION_CONFIGURATION } from "./migration.ts";

/** Default maximum number of queue pairs. More than 8 pairs add interrupts but little throughput. */
const DEFAULT_MAX_QUEUES = 8;

/** Schema of a network binding plugin. Source: KubeVirt api/core/v1 types.go InterfaceBindingPlugin. */
const BINDING_PLUGIN = Type.Object(
  {
    domainAttachmentType: Type.Optional(
      Type.String({
        description:
          "Backend of the guest's NIC: tap, which the plugin creates, or managedTap, for which Patchbay creates a tap and a bridge; absent if the sidecar defines the NIC.",
      }),
    ),
    networkAttachmentDefinition: Type.Optional(
      Type.String({
        description:
          "NetworkAttachmentDefinition that the pod joins for each such interface, as NAME or NAMESPACE/NAME.",
      }),
    ),
    downwardAPI: Type.Optional(
      Type.String({
        description:
          "device-info: the launcher has device, MAC and MTU of each such interface in /etc/podinfo/network-info.",
      }),
    ),
    computeResourceOverhead: Type.Optional(
      Type.Object(
        {
          requests: Type.Optional(
            Type.Object(
              {
                memory: Type.Optional(
                  Type.Unsafe<string | number>(
                    quantity("Additional memory of the launcher, once for all such interfaces."),
                  ),
                ),
              },
              PRESERVE_UNKNOWN_FIELDS,
            ),
          ),
        },
        PRESERVE_UNKNOWN_FIELDS,
      ),
    ),
    migration: Type.Optional(
      Type.Object(
        {
          method: Type.Optional(
            Type.String({
              description: "How the guest is notified after a migration; stored without effect.",
            }),
          ),
        },
        {
          ...PRESERVE_UNKNOWN_FIELDS,
          description: "Allows migration of VMs with such an interface.",
        },
      ),
    ),
    sidecarImage: Type.Optional(
      Type.String({
        description: "Image of a sidecar container that can change the domain (a hook).",
      }),
    ),
  },
  PRESERVE_UNKNOWN_FIELDS,
);

export type BindingPlugin = Static<typeof BINDING_PLUGIN>;
export type BindingRegistry = Readonly<Record<string, BindingPlugin>>;

const ROLLOUT_STRATEGIES = ["LiveUpdate", "Stage"] as const;
type RolloutStrategy = (typeof ROLLOUT_STRATEGIES)[number];

export const EVICTION_STRATEGIES = [
  "None",
  "LiveMigrate",
  "LiveMigrateIfPossible",
  "External",
] as const;

export type EvictionStrategy = (typeof EVICTION_STRATEGIES)[number];

/** Binding of the interface that admission adds to a VM without interfaces. Source: KubeVirt NetworkConfiguration.NetworkInterface. */
export type AutoBinding = "bridge" | "masquerade";

/** Maximum number of claims that a launcher holds for later NICs. Each claim occupies a device of the node. */
const CLAIM_SLOTS_MAX = 16;

/** Schema of the settings that Patchbay implements. The API server also stores other settings, but they have no effect. */
export const KubeVirtSpecSchema = Type.Object(
  {
    configuration: Type.Optional(
      Type.Object(
        {
          network: Type.Optional(
            Type.Object(
              {
                pcieRootPorts: Type.Optional(
                  Type.Integer({
                    minimum: 0,
                    maximum: PCIE_ROOT_PORTS_MAX,
                    description: `Hot-plug ports of VMs that do not set a number; ${String(PCIE_ROOT_PORTS_DEFAULT)} when absent.`,
                  }),
                ),
                defaultNetworkInterface: Type.Optional(
                  Type.Unsafe<AutoBinding>({
                    type: "string",
                    enum: ["bridge", "masquerade"],
                    description:
                      "Binding of the interface that is added to a VM without interfaces; bridge when absent.",
                  }),
                ),
                maxInterfaceQueues: Type.Optional(
                  Type.Integer({
                    minimum: 1,
                    maximum: QUEUES_MAX,
                    description: `Maximum number of queue pairs of an interface; ${String(DEFAULT_MAX_QUEUES)} when absent.`,
                  }),
                ),
                maxQueues: Type.Optional(
                  Type.Integer({
                    minimum: 1,
                    maximum: QUEUES_MAX,
                    description: "Former name of maxInterfaceQueues, which takes precedence.",
                  }),
                ),
                binding: Type.Optional(
                  Type.Record(Type.String(), BINDING_PLUGIN, {
                    description: "Bindings that interfaces may name, by name.",
                  }),
                ),
                portSecurity: Type.Optional(CLUSTER_PORT_SECURITY),
                tenantPolicy: Type.Optional(TENANT_POLICY),
                resourceClaimSlots: Type.Optional(
                  Type.Object(
                    {
                      resourceClaimTemplateName: Type.String({
                        description:
                          "ResourceClaimTemplate; VMs of namespaces that have it get the slots.",
                      }),
                      count: Type.Integer({
                        minimum: 1,
                        maximum: CLAIM_SLOTS_MAX,
                        description: "Number of free slots of each VM at its start.",
                      }),
                    },
                    {
                      description:
                        "Resource claims that launchers hold from their start for NICs that are plugged later. Needs feature gate NetworkDevicesWithDRA.",
                    },
                  ),
                ),
                sharedMemory: Type.Optional(
                  Type.Boolean({
                    description:
                      "Guests' memory can be shared with a userspace dataplane (memfd); true when absent.",
                  }),
                ),
              },
              PRESERVE_UNKNOWN_FIELDS,
            ),
          ),
          migrations: Type.Optional(MIGRATION_CONFIGURATION),
          vmRolloutStrategy: Type.Optional(
            Type.Unsafe<RolloutStrategy>({
              type: "string",
              enum: [...ROLLOUT_STRATEGIES],
              description:
                "When a change of a VM applies: LiveUpdate, at once if the field can change live; Stage, at the next start; LiveUpdate when absent.",
            }),
          ),
          evictionStrategy: Type.Optional(
            Type.Unsafe<EvictionStrategy>({
              type: "string",
              enum: [...EVICTION_STRATEGIES],
              description: "Default eviction strategy of VMs; None when absent.",
            }),
          ),
          vmStateStorageClass: Type.Optional(
            Type.String({
              description:
                "Storage class of the claims that keep firmware's variables and the TPM's state; the default class when absent.",
            }),
          ),
          hostDiskDirectories: Type.Optional(
            Type.Array(Type.String(), {
              description:
                "Directories of the nodes with files that VMs may have as hostDisk, where the feature gate HostDisk is on.",
            }),
          ),
          virtualMachineOptions: Type.Optional(
            Type.Object(
              {
                disableSerialConsoleLog: Type.Optional(
                  Type.Object(
                    {},
                    {
                      ...PRESERVE_UNKNOWN_FIELDS,
                      description:
                        "Does not log serial consoles unless a VM sets logSerialConsole.",
                    },
                  ),
                ),
              },
              PRESERVE_UNKNOWN_FIELDS,
            ),
          ),
          developerConfiguration: Type.Optional(
            Type.Object(
              {
                featureGates: Type.Optional(
                  Type.Array(Type.String(), {
                    description:
                      "HostDisk: VMs may have files of their node as disks. Sidecar: VMs may have hooks, by the annotation hooks.kubevirt.io/hookSidecars. InterfaceMTUOverride: interfaces may have their own MTU. NetworkBandwidthLimiting: interfaces may have limits of their traffic. NetworkInterfaceQueueLimits: VMs may set the queues of their interfaces. NetworkDevicesWithDRA: networks may be devices of resource claims. VhostUserDataplane: nodes offer the resource vhost-user.patchbay.io/dataplane to pods.",
                  }),
                ),
                memoryOvercommit: Type.Optional(
                  Type.Integer({
                    minimum: 1,
                    description:
                      "Guest memory in percent of the memory request, if a VM does not set it; 100 when absent.",
                  }),
                ),
                cpuAllocationRatio: Type.Optional(
                  Type.Integer({
                    minimum: 1,
                    description:
                      "Virtual CPUs for each requested CPU, if a VM does not set it; 10 when absent.",
                  }),
                ),
                useEmulation: Type.Optional(
                  Type.Boolean({
                    description: "Guests run under software emulation, without KVM.",
                  }),
                ),
              },
              PRESERVE_UNKNOWN_FIELDS,
            ),
          ),
        },
        PRESERVE_UNKNOWN_FIELDS,
      ),
    ),
  },
  PRESERVE_UNKNOWN_FIELDS,
);

/** Status that virt-controller writes. Source: KubeVirt api/core/v1 types.go KubeVirtStatus. */
export const KubeVirtStatusSchema = Type.Object(
  {
    phase: Type.Optional(
      Type.String({
        description: "Deploying until virt-api answers for the first time, then Deployed.",
      }),
    ),
    conditions: Type.Optional(CONDITIONS_SCHEMA),
    observedGeneration: Type.Optional(
      Type.Integer({ description: "Generation of the spec that virt-controller applies." }),
    ),
    observedKubeVirtVersion: Type.Optional(
      Type.String({ description: "Patchbay's version, as of the running virt-controller." }),
    ),
    operatorVersion: Type.Optional(Type.String({ description: "Equals observedKubeVirtVersion." })),
    targetKubeVirtVersion: Type.Optional(
      Type.String({ description: "Equals observedKubeVirtVersion." }),
    ),
  },
  PRESERVE_UNKNOWN_FIELDS,
);

export type KubeVirtStatus = Static<typeof KubeVirtStatusSchema>;

/** Configuration of the cluster. Patchbay uses the first object of this kind, regardless of its name and namespace. */
export interface KubeVirt extends KubeObject {
  readonly spec?: Static<typeof KubeVirtSpecSchema>;
  readonly status?: Static<typeof KubeVirtStatusSchema>;
}

/** Returns the configuration's resourceVersion, or "" if there is no configuration. */
export function configVersionOf(kubevirt: KubeVirt | undefined): string {
  return kubevirt?.metadata.resourceVersion ?? "";
}

/** Checks whether guests run without KVM. Source: KubeVirt DeveloperConfiguration.useEmulation. */
export function usesEmulation(kubevirt: KubeVirt | undefined): boolean {
  return kubevirt?.spec?.configuration?.developerConfiguration?.useEmulation === true;
}

export function evictionStrategyOf(kubevirt: KubeVirt | undefined): EvictionStrategy {
  return kubevirt?.spec?.configuration?.evictionStrategy ?? "None";
}

/** Checks whether serial consoles are logged by default. Source: KubeVirt DisableSerialConsoleLog. */
export function logsSerialConsoles(kubevirt: KubeVirt | undefined): boolean {
  const options = kubevirt?.spec?.configuration?.virtualMachineOptions;
  return options?.disableSerialConsoleLog === undefined;
}

/** Feature gate for hostDisk volumes. Source: KubeVirt feature gate HostDisk. */
const HOST_DISK_GATE = "HostDisk";

function listFeatureGates(kubevirt: KubeVirt | undefined): readonly string[] {
  return kubevirt?.spec?.configuration?.developerConfiguration?.featureGates ?? [];
}

const DATAPLANE_GATE = "VhostUserDataplane";

/** Checks whether dataplane pods may mount the vhost-user sockets of all VMs on their node. */
export function isDataplaneEnabled(kubevirt: KubeVirt | undefined): boolean {
  return listFeatureGates(kubevirt).includes(DATAPLANE_GATE);
}

export interface StorageConfig {
  /** Host directories whose files VMs may use as disks; undefined if feature gate HostDisk is off. */
  readonly hostDisks: readonly string[] | undefined;
  /** Storage class of the PersistentVolumeClaims that Patchbay creates for VM state; undefined for the default class. */
  readonly stateClass: string | undefined;
}

export function readStorageConfig(kubevirt: KubeVirt | undefined): StorageConfig {
  const configured = kubevirt?.spec?.configuration;
  return {
    hostDisks: listFeatureGates(kubevirt).includes(HOST_DISK_GATE)
      ? (configured?.hostDiskDirectories ?? [])
      : undefined,
    stateClass: configured?.vmStateStorageClass,
  };
}

export interface OvercommitConfig {
  readonly memoryPercent: number;
  readonly cpuRatio: number;
}

/** Default number of guest vCPUs per requested CPU. Source: KubeVirt DeveloperConfiguration.cpuAllocationRatio. */
const DEFAULT_CPU_RATIO = 10;

export function readOvercommitConfig(kubevirt: KubeVirt | undefined): OvercommitConfig {
  const configured = kubevirt?.spec?.configuration?.developerConfiguration;
  return {
    memoryPercent: configured?.memoryOvercommit ?? 100,
    cpuRatio: configured?.cpuAllocationRatio ?? DEFAULT_CPU_RATIO,
  };
}

export interface NetworkConfig {
  readonly pcieRootPorts: number;
  readonly maxQueues: number;
  readonly sharedMemory: boolean;
  readonly security: ClusterSecurity;
  readonly bindings: BindingRegistry;
  /** Whether changes to a VM's NICs are postponed to the VM's next start. */
  readonly isStaged: boolean;
  readonly autoBinding: AutoBinding;
  readonly allowsHooks: boolean;
  readonly claimSlots?: ClaimSlots;
  readonly nicGates: readonly NicGate[];
}

/** Feature gates of network fields. Source: KubeVirt pull requests 18968 and 17661, enhancements 422 and 235. */
const NIC_GATES = [
  "InterfaceMTUOverride",
  "NetworkInterfaceQueueLimits",
  "NetworkBandwidthLimiting",
  "NetworkDevicesWithDRA",
] as const;
export type NicGate = (typeof NIC_GATES)[number];
export const CLAIMS_GATE: NicGate = "NetworkDevicesWithDRA";

/** Claims that are added to a new VMI for NICs plugged later, if the VMI's namespace has the ResourceClaimTemplate. */
export interface ClaimSlots {
  readonly resourceClaimTemplateName: string;
  readonly count: number;
}

/** Feature gate for hook sidecars. Source: KubeVirt feature gate Sidecar. */
const SIDECAR_GATE = "Sidecar";

function readAutoBinding(configured: {
  readonly defaultNetworkInterface?: AutoBinding;
}): AutoBinding {
  return configured.defaultNetworkInterface ?? "bridge";
}

export function networkConfigOf(kubevirt: KubeVirt | undefined): NetworkConfig {
  const configuration = kubevirt?.spec?.configuration;
  const configured = configuration?.network ?? {};
  const gates = listFeatureGates(kubevirt);
  return {
    pcieRootPorts: configured.pcieRootPorts ?? PCIE_ROOT_PORTS_DEFAULT,
    maxQueues: configured.maxInterfaceQueues ?? configured.maxQueues ?? DEFAULT_MAX_QUEUES,
    sharedMemory: configured.sharedMemory ?? true,
    security: readClusterSecurity(configured.portSecurity),
    bindings: configured.binding ?? {},
    isStaged: configuration?.vmRolloutStrategy === "Stage",
    autoBinding: readAutoBinding(configured),
    allowsHooks: gates.includes(SIDECAR_GATE),
    nicGates: NIC_GATES.filter((gate) => gates.includes(gate)),
    ...(configured.resourceClaimSlots !== undefined &&
      gates.includes(CLAIMS_GATE) && { claimSlots: configured.resourceClaimSlots }),
  };
}
