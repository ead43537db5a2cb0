// SPDX-License-Identifier: Apache-2.0
// VirtualMachinePreference and VirtualMachineClusterPreference: what suits a guest, by name, where its VM does not say.
// Source: KubeVirt api/instancetype/v1beta1 types.go.
import type { Static } from "typebox";
import { FEATURES } from "../../fields/guest-fields.ts";
import { feature, harmless, object, quantity } from "../../fields/notation.ts";
import { Type } from "../../fields/schema.ts";
import { OFFSET_FIELDS, TimerSchema } from "../guest/clock.ts";
import { CpuFeatureSchema } from "../guest/cpu.ts";
import { GUEST_DEVICES } from "../guest/devices.ts";
import { BlockSizeSchema } from "../guest/disk.ts";
import { FEATURE_FIELDS } from "../guest/features.ts";
import { EfiSchema } from "../guest/firmware.ts";
import type { KubeObject } from "../kubernetes/meta.ts";
import { words } from "./instancetype.ts";

const flag = (description: string) => Type.Optional(Type.Boolean({ description }));
const text = (description: string) => Type.Optional(Type.String({ description }));
const count = (description: string) => Type.Optional(Type.Integer({ minimum: 1, description }));

/** How processors are arranged; the longer words are older spellings. Source: KubeVirt PreferredCPUTopology. */
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

/** Where processors are spread. Source: KubeVirt SpreadAcross. */
export const SPREADS = ["SocketsCores", "CoresThreads", "SocketsCoresThreads"] as const;

const CpuSchema = Type.Object(
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
            Type.Unsafe<(typeof SPREADS)[number]>({
              type: "string",
              enum: [...SPREADS],
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
    preferredCdromBus: text("Bus of CD-ROMs."),
    preferredDisableHotplug: flag("As disableHotplug of a VM, over what the VM says."),
    preferredDiskBlockSize: Type.Optional(BlockSizeSchema),
    preferredDiskBus: text("Bus of hard disks."),
    preferredDiskCache: text("Cache of hard disks."),
    preferredDiskDedicatedIoThread: flag("Hard disks on virtio have a thread each."),
    preferredDiskIO: text("Way of input and output of hard disks."),
    preferredInputBus: text("Bus of input devices."),
    preferredInputType: text("Type of input devices."),
    preferredInterfaceMasquerade: Type.Optional(
      Type.Object(
        {},
        { description: "Interfaces on the pod's network that name no binding are masqueraded." },
      ),
    ),
    preferredInterfaceModel: text("Model of interfaces, those that are plugged later too."),
    preferredLunBus: text("Bus of LUNs."),
    preferredNetworkInterfaceMultiQueue: flag("As networkInterfaceMultiqueue of a VM."),
    preferredPanicDeviceModel: text("Model of panic devices, of which there is one then."),
    preferredRng: GUEST_DEVICES.rng,
    preferredSoundModel: text("Model of a sound card that names none."),
    preferredTPM: GUEST_DEVICES.tpm,
    preferredUseVirtioTransitional: flag("As useVirtioTransitional of a VM."),
    preferredVideoType: text("Model of the graphics card."),
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
    preferredAcpi: FEATURE_FIELDS.acpi,
    preferredApic: FEATURE_FIELDS.apic,
    preferredHyperv: FEATURES.hyperv,
    preferredKvm: FEATURE_FIELDS.kvm,
    preferredPvspinlock: FEATURE_FIELDS.pvspinlock,
    preferredSmm: FEATURE_FIELDS.smm,
  },
  { description: "Features of the machine." },
);

const FirmwareSchema = Type.Object(
  {
    preferredEfi: Type.Optional(EfiSchema),
    preferredUseBios: flag("BIOS, where the VM names neither it nor EFI."),
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
    architecture: text("Processor architecture."),
  },
  { description: "What a VM must have for this preference." },
);

/** What suits a guest: each holds where the VM says nothing. */
export const PreferenceSpecSchema = Type.Object(
  {
    annotations: words("Annotations of the VMI."),
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
    cpu: Type.Optional(CpuSchema),
    devices: Type.Optional(DevicesSchema),
    features: Type.Optional(FeaturesSchema),
    firmware: Type.Optional(FirmwareSchema),
    machine: Type.Optional(
      Type.Object(
        { preferredMachineType: text("q35 or pc.") },
        { description: "The machine's kind." },
      ),
    ),
    preferSpreadSocketToCoreRatio: Type.Optional(
      Type.Integer({ minimum: 0, description: "Older form of cpu.spreadOptions.ratio." }),
    ),
    preferredArchitecture: text("Processor architecture."),
    preferredSubdomain: text("Domain of the host name."),
    preferredTerminationGracePeriodSeconds: Type.Optional(
      Type.Integer({ minimum: 0, description: "Seconds for the guest to shut down." }),
    ),
    requirements: Type.Optional(RequirementsSchema),
    volumes: Type.Optional(
      Type.Object(
        {
          preferredStorageClassName: text("Storage class of the VM's DataVolumes that name none."),
        },
        { description: "Volumes." },
      ),
    ),
  },
  { description: "What suits a guest." },
);

/** What suits a guest. */
export type PreferenceSpec = Static<typeof PreferenceSpecSchema>;

/** A preference, of a namespace or of the cluster. */
export interface Preference extends KubeObject {
  readonly spec: PreferenceSpec;
}
