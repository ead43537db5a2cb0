// SPDX-License-Identifier: Apache-2.0
// Instancetypes and preferences, namespaced and cluster-wide. Source: KubeVirt api/instancetype/v1beta1 types.go.
import type { Static, TOptional, TUnsafe } from "typebox";
import {
  DEVICE_FIELDS,
  CPU_FIELDS,
  DOMAIN_FIELDS,
  MEMORY_FIELDS,
  UNSUPPORTED_FEATURES,
} from "../fields/unacted-fields.ts";
import { map, quantity, text, feature, harmless, object } from "../fields/notation.ts";
import { Type } from "../fields/schema.ts";
import type { KubeObject } from "./kubernetes/meta.ts";
import {
  OFFSET_FIELDS,
  TimerSchema,
  CpuFeatureSchema,
  GUEST_DEVICES,
  SUPPORTED_FEATURES,
  EfiSchema,
} from "./guest/machine.ts";
import { BlockSizeSchema } from "./guest/disks.ts";

const flag = (description: string) => Type.Optional(Type.Boolean({ description }));

function stringMap(description: string): TOptional<TUnsafe<Readonly<Record<string, string>>>> {
  return Type.Optional(
    Type.Unsafe<Readonly<Record<string, string>>>(map(description, text("Value."))),
  );
}

const CpuSchema = Type.Object(
  {
    guest: Type.Integer({
      minimum: 1,
      description: "Virtual CPUs, arranged by the preference, otherwise as sockets.",
    }),
    maxSockets: Type.Optional(
      Type.Integer({
        minimum: 1,
        description: "Most sockets that could be plugged while the guest runs.",
      }),
    ),
    model: Type.Optional(Type.String({ description: "Model that the guest sees." })),
    dedicatedCPUPlacement: flag("Each vCPU has a processor of the node for itself."),
    isolateEmulatorThread: flag("One more processor for the emulator's own work."),
    numa: CPU_FIELDS.numa,
    realtime: CPU_FIELDS.realtime,
  },
  { description: "Processors." },
);

const MemorySchema = Type.Object(
  {
    guest: Type.Unsafe<string | number>(quantity("Memory of the guest, for example 2Gi.")),
    overcommitPercent: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: 100,
        description: "So much less of it is requested of the node, in percent.",
      }),
    ),
    hugepages: MEMORY_FIELDS.hugepages,
    maxGuest: MEMORY_FIELDS.maxGuest,
  },
  { description: "Memory." },
);

/** Schema of the fields that an instancetype sets. A VM with an instancetype must not set these fields. */
export const InstancetypeSpecSchema = Type.Object(
  {
    cpu: CpuSchema,
    memory: MemorySchema,
    nodeSelector: stringMap("Labels of the nodes on which the VM may run."),
    schedulerName: Type.Optional(Type.String({ description: "Scheduler of the pod." })),
    annotations: stringMap("Annotations of the VMI."),
    ioThreadsPolicy: Type.Optional(
      Type.String({ description: "How threads are shared between disks: shared or auto." }),
    ),
    ioThreads: DOMAIN_FIELDS.ioThreads,
    gpus: DEVICE_FIELDS.gpus,
    hostDevices: DEVICE_FIELDS.hostDevices,
    launchSecurity: DOMAIN_FIELDS.launchSecurity,
  },
  { description: "How large a VM is, and where it runs." },
);

export type InstancetypeSpec = Static<typeof InstancetypeSpecSchema>;

export interface Instancetype extends KubeObject {
  readonly spec: InstancetypeSpec;
}

const optionalText = (description: string) => Type.Optional(Type.String({ description }));
const count = (description: string) => Type.Optional(Type.Integer({ minimum: 1, description }));

/** Maps current and deprecated names of CPU topologies to the current names. Source: KubeVirt PreferredCPUTopology. */
export const CPU_TOPOLOGIES = {
  sockets: "sockets",
  cores: "cores",
  threads: "threads",
  spread: "spread",
  any: "any",
  preferSockets: "sockets",
  preferCores: "cores",
  preferThreads: "threads",
  preferSpread: "spread",
  preferAny: "any",
} as const;

/** Levels of the CPU topology across which vCPUs are spread. Source: KubeVirt SpreadAcross. */
const SPREAD_TARGETS = ["SocketsCores", "CoresThreads", "SocketsCoresThreads"] as const;

const PreferredCpuSchema = Type.Object(
  {
    preferredCPUTopology: Type.Optional(
      Type.Unsafe<keyof typeof CPU_TOPOLOGIES>({
        type: "string",
        enum: Object.keys(CPU_TOPOLOGIES),
        description: "What the instancetype's vCPUs are; sockets when absent.",
      }),
    ),
    spreadOptions: Type.Optional(
      Type.Object(
        {
          across: Type.Optional(
            Type.Unsafe<(typeof SPREAD_TARGETS)[number]>({
              type: "string",
              enum: [...SPREAD_TARGETS],
              description: "Where they are spread; SocketsCores when absent.",
            }),
          ),
          ratio: count("Cores of each socket, or threads of each core; 2 when absent."),
        },
        { description: "How vCPUs are spread." },
      ),
    ),
    preferredCPUFeatures: Type.Optional(
      Type.Array(CpuFeatureSchema, { description: "Features beside those that the VM names." }),
    ),
  },
  { description: "Processors." },
);

const DevicesSchema = Type.Object(
  {
    preferredAutoattachGraphicsDevice: flag("As autoattachGraphicsDevice of a VM."),
    preferredAutoattachInputDevice: flag("As autoattachInputDevice of a VM."),
    preferredAutoattachMemBalloon: flag("As autoattachMemBalloon of a VM."),
    preferredAutoattachPodInterface: flag("As autoattachPodInterface of a VM."),
    preferredAutoattachSerialConsole: flag("As autoattachSerialConsole of a VM."),
    preferredBlockMultiQueue: flag("As blockMultiQueue of a VM."),
    preferredCdromBus: optionalText("Bus of CD-ROMs."),
    preferredDisableHotplug: flag("Like disableHotplug of a VM, which it overrides."),
    preferredDiskBlockSize: Type.Optional(BlockSizeSchema),
    preferredDiskBus: optionalText("Bus of hard disks."),
    preferredDiskCache: optionalText("Cache of hard disks."),
    preferredDiskDedicatedIoThread: flag("Hard disks on virtio have a thread each."),
    preferredDiskIO: optionalText("Way of input and output of hard disks."),
    preferredInputBus: optionalText("Bus of input devices."),
    preferredInputType: optionalText("Type of input devices."),
    preferredInterfaceMasquerade: Type.Optional(
      Type.Object(
        {},
        { description: "Interfaces on the pod's network that name no binding are masqueraded." },
      ),
    ),
    preferredInterfaceModel: optionalText("Model of interfaces, those that are plugged later too."),
    preferredLunBus: optionalText("Bus of LUNs."),
    preferredNetworkInterfaceMultiQueue: flag("As networkInterfaceMultiqueue of a VM."),
    preferredPanicDeviceModel: optionalText("Model of panic devices, of which there is one then."),
    preferredRng: GUEST_DEVICES.rng,
    preferredSoundModel: optionalText("Model of a sound card that names none."),
    preferredTPM: GUEST_DEVICES.tpm,
    preferredUseVirtioTransitional: flag("As useVirtioTransitional of a VM."),
    preferredVideoType: optionalText("Model of the graphics card."),
    preferredVirtualGPUOptions: harmless(
      object("How a virtual GPU is shown; there are none.", {
        display: feature("A display on it.", {
          ramFB: feature("A framebuffer before the driver."),
        }),
      }),
    ),
  },
  { description: "Devices." },
);

const FeaturesSchema = Type.Object(
  {
    preferredAcpi: SUPPORTED_FEATURES.acpi,
    preferredApic: SUPPORTED_FEATURES.apic,
    preferredHyperv: UNSUPPORTED_FEATURES.hyperv,
    preferredKvm: SUPPORTED_FEATURES.kvm,
    preferredPvspinlock: SUPPORTED_FEATURES.pvspinlock,
    preferredSmm: SUPPORTED_FEATURES.smm,
  },
  { description: "Features of the machine." },
);

const FirmwareSchema = Type.Object(
  {
    preferredEfi: Type.Optional(EfiSchema),
    preferredUseBios: flag("BIOS, if the VM names neither BIOS nor EFI."),
    preferredUseBiosSerial: flag("BIOS speaks on the serial console."),
    preferredUseEfi: flag("Older form of preferredEfi."),
    preferredUseSecureBoot: flag("Older form of preferredEfi.secureBoot."),
  },
  { description: "Firmware." },
);

const amount = (description: string) => Type.Unsafe<string | number>(quantity(description));

const RequirementsSchema = Type.Object(
  {
    cpu: Type.Optional(
      Type.Object(
        { guest: Type.Integer({ description: "Least vCPUs." }) },
        { description: "CPUs." },
      ),
    ),
    memory: Type.Optional(
      Type.Object({ guest: amount("Least memory.") }, { description: "Memory." }),
    ),
    architecture: optionalText("Processor architecture."),
  },
  { description: "What a VM must have for this preference." },
);

/** Schema of a preference's defaults, which apply to fields that the VM does not set. */
export const PreferenceSpecSchema = Type.Object(
  {
    annotations: stringMap("Annotations of the VMI."),
    clock: Type.Optional(
      Type.Object(
        {
          preferredClockOffset: Type.Optional(
            Type.Object(OFFSET_FIELDS, { description: "What the clock shows." }),
          ),
          preferredTimer: Type.Optional(TimerSchema),
        },
        { description: "The clock." },
      ),
    ),
    cpu: Type.Optional(PreferredCpuSchema),
    devices: Type.Optional(DevicesSchema),
    features: Type.Optional(FeaturesSchema),
    firmware: Type.Optional(FirmwareSchema),
    machine: Type.Optional(
      Type.Object(
        { preferredMachineType: optionalText("q35 or pc.") },
        { description: "The machine's kind." },
      ),
    ),
    preferSpreadSocketToCoreRatio: Type.Optional(
      Type.Integer({ minimum: 0, description: "Older form of cpu.spreadOptions.ratio." }),
    ),
    preferredArchitecture: optionalText("Processor architecture."),
    preferredSubdomain: optionalText("Domain of the host name."),
    preferredTerminationGracePeriodSeconds: Type.Optional(
      Type.Integer({ minimum: 0, description: "Seconds for the guest to shut down." }),
    ),
    requirements: Type.Optional(RequirementsSchema),
    volumes: Type.Optional(
      Type.Object(
        {
          preferredStorageClassName: optionalText(
            "Storage class of the VM's DataVolumes that name none.",
          ),
        },
        { description: "Volumes." },
      ),
    ),
  },
  { description: "What suits a guest." },
);

export type PreferenceSpec = Static<typeof PreferenceSpecSchema>;

export interface Preference extends KubeObject {
  readonly spec: PreferenceSpec;
}
