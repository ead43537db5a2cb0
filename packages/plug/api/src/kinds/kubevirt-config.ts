// SPDX-License-Identifier: Apache-2.0
// The KubeVirt kind: the configuration of the cluster. Source: KubeVirt api/core/v1 types.go KubeVirtConfiguration.
import type { Static } from "typebox";
import { quantity } from "../fields/notation.ts";
import { Type } from "../fields/schema.ts";
import { type KubeObject, CONDITIONS_SCHEMA } from "./kubernetes/meta.ts";
import { OPEN, CLUSTER_PORT_SECURITY, clusterSecurityOf, type ClusterSecurity } from "./network.ts";
import { PCIE_ROOT_PORTS_DEFAULT, PCIE_ROOT_PORTS_MAX } from "../values/pci.ts";
import { TENANT_POLICY } from "./tenant-policy.ts";
import { MIGRATION_CONFIGURATION } from "./migration.ts";

/** Most pairs of queues that a NIC can be given. Source: linux/drivers/net/tun.c MAX_TAP_QUEUES */
const QUEUES_MAX = 256;
/** Source: KubeVirt limits queues to 256, the kernel's tap; more than 8 cost interrupts and bring little. */
const DEFAULT_MAX_QUEUES = 8;

/** A way of binding that the cluster has registered. Source: KubeVirt api/core/v1 types.go InterfaceBindingPlugin. */
const BINDING_PLUGIN = Type.Object(
  {
    domainAttachmentType: Type.Optional(
      Type.String({
        description:
          "What the guest's NIC hangs on: tap, which the plugin makes, or managedTap, a tap and a bridge that are made for it; absent where the sidecar makes the NIC.",
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
                    quantity("Memory that the launcher has more, once for all such interfaces."),
                  ),
                ),
              },
              OPEN,
            ),
          ),
        },
        OPEN,
      ),
    ),
    migration: Type.Optional(
      Type.Object(
        {
          method: Type.Optional(
            Type.String({ description: "What the guest is told when it has arrived; kept." }),
          ),
        },
        { ...OPEN, description: "Such an interface goes along when its VM is migrated." },
      ),
    ),
    sidecarImage: Type.Optional(
      Type.String({
        description:
          "Image of a container beside the guest's, which is asked for changes of the domain (a hook).",
      }),
    ),
  },
  OPEN,
);

/** A way of binding that the cluster has registered. */
export type BindingPlugin = Static<typeof BINDING_PLUGIN>;
/** All of them, by name. */
export type BindingRegistry = Readonly<Record<string, BindingPlugin>>;

/** Source: KubeVirt api/core/v1 types.go VMRolloutStrategy. */
const ROLLOUT_STRATEGIES = ["LiveUpdate", "Stage"] as const;
type RolloutStrategy = (typeof ROLLOUT_STRATEGIES)[number];

/** What an eviction of a VM's pod does. Source: KubeVirt api/core/v1 types.go EvictionStrategy. */
export const EVICTION_STRATEGIES = [
  "None",
  "LiveMigrate",
  "LiveMigrateIfPossible",
  "External",
] as const;

/** One of them. */
export type EvictionStrategy = (typeof EVICTION_STRATEGIES)[number];

/** How an interface is bound that nobody has declared. Source: KubeVirt NetworkConfiguration.NetworkInterface. */
export type AutoBinding = "bridge" | "masquerade";

/** The part of KubeVirt's configuration that is acted on; the rest is kept. */
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
                    description: `Ports for hot-plug of VMs that do not say how many; ${String(PCIE_ROOT_PORTS_DEFAULT)} when absent.`,
                  }),
                ),
                defaultNetworkInterface: Type.Optional(
                  Type.Unsafe<AutoBinding>({
                    type: "string",
                    enum: ["bridge", "masquerade"],
                    description:
                      "Binding of the interface that a VM without any gets; bridge when absent.",
                  }),
                ),
                maxQueues: Type.Optional(
                  Type.Integer({
                    minimum: 1,
                    maximum: QUEUES_MAX,
                    description: `Most pairs of queues of an interface of a VM with networkInterfaceMultiqueue; ${String(DEFAULT_MAX_QUEUES)} when absent.`,
                  }),
                ),
                binding: Type.Optional(
                  Type.Record(Type.String(), BINDING_PLUGIN, {
                    description: "Bindings that interfaces may name, by name.",
                  }),
                ),
                portSecurity: Type.Optional(CLUSTER_PORT_SECURITY),
                tenantPolicy: Type.Optional(TENANT_POLICY),
                sharedMemory: Type.Optional(
                  Type.Boolean({
                    description:
                      "Guests' memory can be shared with a userspace dataplane (memfd); true when absent.",
                  }),
                ),
              },
              OPEN,
            ),
          ),
          migrations: Type.Optional(MIGRATION_CONFIGURATION),
          vmRolloutStrategy: Type.Optional(
            Type.Unsafe<RolloutStrategy>({
              type: "string",
              enum: [...ROLLOUT_STRATEGIES],
              description:
                "When a change of a VM reaches its guest: LiveUpdate, where the field can be changed live, also when absent; Stage, at the next start.",
            }),
          ),
          evictionStrategy: Type.Optional(
            Type.Unsafe<EvictionStrategy>({
              type: "string",
              enum: [...EVICTION_STRATEGIES],
              description:
                "What an eviction of a VM's pod does where the VM does not say; None when absent.",
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
                      ...OPEN,
                      description:
                        "What guests print on their serial consoles is no container's log, unless a VM says logSerialConsole.",
                    },
                  ),
                ),
              },
              OPEN,
            ),
          ),
          developerConfiguration: Type.Optional(
            Type.Object(
              {
                featureGates: Type.Optional(
                  Type.Array(Type.String(), {
                    description:
                      "HostDisk: VMs may have files of their node as disks. Sidecar: VMs may have hooks, by the annotation hooks.kubevirt.io/hookSidecars. VhostUserDataplane: nodes offer the resource vhost-user.patchbay.io/dataplane to pods.",
                  }),
                ),
                memoryOvercommit: Type.Optional(
                  Type.Integer({
                    minimum: 1,
                    description:
                      "Guests' memory in percent of what is requested for it, where a VM does not say; 100 when absent.",
                  }),
                ),
                cpuAllocationRatio: Type.Optional(
                  Type.Integer({
                    minimum: 1,
                    description:
                      "Guests' processors for each that is requested, where a VM does not say; 10 when absent.",
                  }),
                ),
                useEmulation: Type.Optional(
                  Type.Boolean({
                    description: "Guests run under software emulation, without KVM.",
                  }),
                ),
              },
              OPEN,
            ),
          ),
        },
        OPEN,
      ),
    ),
  },
  OPEN,
);

/** How the installation is; writer: virt-controller. Source: KubeVirt api/core/v1 types.go KubeVirtStatus. */
export const KubeVirtStatusSchema = Type.Object(
  {
    phase: Type.Optional(
      Type.String({ description: "Deploying until virt-api answered first, then Deployed." }),
    ),
    conditions: Type.Optional(CONDITIONS_SCHEMA),
    observedGeneration: Type.Optional(
      Type.Integer({ description: "The generation of the spec that virt-controller knows." }),
    ),
    observedKubeVirtVersion: Type.Optional(
      Type.String({ description: "Of the virt-controller that runs: Patchbay's own version." }),
    ),
    operatorVersion: Type.Optional(Type.String({ description: "The same." })),
    targetKubeVirtVersion: Type.Optional(Type.String({ description: "The same." })),
  },
  OPEN,
);

/** How the installation is. */
export type KubeVirtStatus = Static<typeof KubeVirtStatusSchema>;

/** The cluster's configuration: the first object of this kind, wherever it is. */
export interface KubeVirt extends KubeObject {
  readonly spec?: Static<typeof KubeVirtSpecSchema>;
  readonly status?: Static<typeof KubeVirtStatusSchema>;
}

/** By which version of the object somebody goes who knows it like this; "" without one. */
export function configVersionOf(kubevirt: KubeVirt | undefined): string {
  return kubevirt?.metadata.resourceVersion ?? "";
}

/** Whether guests run without KVM. Source: KubeVirt DeveloperConfiguration.useEmulation. */
export function usesEmulation(kubevirt: KubeVirt | undefined): boolean {
  return kubevirt?.spec?.configuration?.developerConfiguration?.useEmulation === true;
}

/** What an eviction does where a VM does not say. */
export function evictionStrategyOf(kubevirt: KubeVirt | undefined): EvictionStrategy {
  return kubevirt?.spec?.configuration?.evictionStrategy ?? "None";
}

/** Whether what guests print is a container's log, where a VM does not say. Source: KubeVirt DisableSerialConsoleLog. */
export function logsConsoles(kubevirt: KubeVirt | undefined): boolean {
  const options = kubevirt?.spec?.configuration?.virtualMachineOptions;
  return options?.disableSerialConsoleLog === undefined;
}

/** Source: KubeVirt feature gate HostDisk. */
const HOST_DISK_GATE = "HostDisk";

function gatesOf(kubevirt: KubeVirt | undefined): readonly string[] {
  return kubevirt?.spec?.configuration?.developerConfiguration?.featureGates ?? [];
}

/** Patchbay's own. */
const DATAPLANE_GATE = "VhostUserDataplane";

/** Whether pods may have the sockets of vhost-user of all VMs of their node. */
export function offersDataplane(kubevirt: KubeVirt | undefined): boolean {
  return gatesOf(kubevirt).includes(DATAPLANE_GATE);
}

/** What the cluster says of the storage of all VMs. */
export interface StorageConfig {
  /** Directories with files that VMs may have as disks; none where that is switched off. */
  readonly hostDisks: readonly string[] | undefined;
  /** Class of the claims that keep a VM's state; undefined: the default one. */
  readonly stateClass: string | undefined;
}

/** The cluster's settings of storage. */
export function storageConfigOf(kubevirt: KubeVirt | undefined): StorageConfig {
  const given = kubevirt?.spec?.configuration;
  return {
    hostDisks: gatesOf(kubevirt).includes(HOST_DISK_GATE)
      ? (given?.hostDiskDirectories ?? [])
      : undefined,
    stateClass: given?.vmStateStorageClass,
  };
}

/** How much less is requested of a node than guests have. */
export interface OvercommitConfig {
  /** Percent of a guest's memory for 100 that are requested. */
  readonly memoryPercent: number;
  /** Guests' processors for each that is requested. */
  readonly cpuRatio: number;
}

/** Source: KubeVirt DeveloperConfiguration.cpuAllocationRatio. */
const DEFAULT_CPU_RATIO = 10;

/** The cluster's settings of overcommitment. */
export function overcommitConfigOf(kubevirt: KubeVirt | undefined): OvercommitConfig {
  const given = kubevirt?.spec?.configuration?.developerConfiguration;
  return {
    memoryPercent: given?.memoryOvercommit ?? 100,
    cpuRatio: given?.cpuAllocationRatio ?? DEFAULT_CPU_RATIO,
  };
}

/** What the cluster says of the NICs of all VMs. */
export interface NetworkConfig {
  /** Ports for hot-plug of a VM that does not say how many. */
  readonly pcieRootPorts: number;
  /** Most pairs of queues of a NIC. */
  readonly maxQueues: number;
  /** Whether guests' memory can be shared with other processes. */
  readonly sharedMemory: boolean;
  /** What guests may send. */
  readonly security: ClusterSecurity;
  /** Ways of binding beside those that are always there. */
  readonly bindings: BindingRegistry;
  /** Changes of a VM's NICs wait for its next start. */
  readonly isStaged: boolean;
  /** Of the NIC of a VM that declares none. */
  readonly autoBinding: AutoBinding;
  /** VMs may have hooks beside those of registered bindings. */
  readonly allowsHooks: boolean;
}

/** Source: KubeVirt feature gate Sidecar. */
const SIDECAR_GATE = "Sidecar";

function autoBindingOf(given: { readonly defaultNetworkInterface?: AutoBinding }): AutoBinding {
  return given.defaultNetworkInterface ?? "bridge";
}

/** The cluster's settings, with defaults for what it does not say. */
export function networkConfigOf(kubevirt: KubeVirt | undefined): NetworkConfig {
  const configuration = kubevirt?.spec?.configuration;
  const given = configuration?.network ?? {};
  return {
    pcieRootPorts: given.pcieRootPorts ?? PCIE_ROOT_PORTS_DEFAULT,
    maxQueues: given.maxQueues ?? DEFAULT_MAX_QUEUES,
    sharedMemory: given.sharedMemory ?? true,
    security: clusterSecurityOf(given.portSecurity),
    bindings: given.binding ?? {},
    isStaged: configuration?.vmRolloutStrategy === "Stage",
    autoBinding: autoBindingOf(given),
    allowsHooks: gatesOf(kubevirt).includes(SIDECAR_GATE),
  };
}
