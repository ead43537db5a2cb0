// SPDX-License-Identifier: Apache-2.0
// Applies a preference to fields that a template leaves unset. Source: KubeVirt pkg/instancetype/preference/apply
// (device.go, disk.go, interface.go).
import {
  type PreferenceSpec,
  type VmiSpec,
  withCurrentFieldNames,
  listBindings,
  type Iface,
  type Network,
  type Disk,
} from "@patchbay/api";
import { isJsonObject } from "@patchbay/api/json";
import { findByName, ifacesOf, networksOf } from "../../nics/nics.ts";
import { type Template, isUnset, omitUnset } from "./instancetype.ts";
import { withDisksOfVolumes } from "../../vm/spec/disks.ts";

function withBus<T extends { readonly bus?: string }>(device: T, bus: string | undefined): T {
  return isUnset(device.bus) && bus !== undefined && bus !== "" ? { ...device, bus } : device;
}

function hardDisk(declared: Disk, likes: PreferredDevices): Disk {
  const disk = withBus(declared.disk ?? {}, likes.preferredDiskBus);
  const open = (name: "blockSize" | "cache" | "io", liked: unknown): unknown =>
    isUnset(declared[name]) && !isUnset(liked) ? liked : undefined;
  const ownThread = disk.bus === "virtio" ? likes.preferredDiskDedicatedIoThread : undefined;
  return {
    ...declared,
    disk,
    ...(omitUnset({
      blockSize: open("blockSize", likes.preferredDiskBlockSize),
      cache: open("cache", likes.preferredDiskCache),
      io: open("io", likes.preferredDiskIO),
      dedicatedIOThread: declared.dedicatedIOThread ?? ownThread,
    }) as Partial<Disk>),
  };
}

function preferredDisk(disk: Disk, likes: PreferredDevices): Disk {
  if (disk.cdrom !== undefined && disk.disk === undefined) {
    return { ...disk, cdrom: withBus(disk.cdrom, likes.preferredCdromBus) };
  }
  if (disk.lun !== undefined && disk.disk === undefined) {
    return { ...disk, lun: withBus(disk.lun, likes.preferredLunBus) };
  }
  return disk.floppy === undefined ? hardDisk(disk, likes) : disk;
}

function isOpenOnPodNetwork(iface: Iface, networks: readonly Network[]): boolean {
  return listBindings(iface).length === 0 && findByName(networks, iface.name)?.pod !== undefined;
}

function preferredIface(
  iface: Iface,
  networks: readonly Network[],
  { preferredInterfaceModel = "", preferredInterfaceMasquerade }: PreferredDevices,
): Iface {
  const takesModel = preferredInterfaceModel !== "" && isUnset(iface.model);
  const takesBinding =
    preferredInterfaceMasquerade !== undefined && isOpenOnPodNetwork(iface, networks);
  return {
    ...iface,
    ...(takesModel ? { model: preferredInterfaceModel } : {}),
    ...(takesBinding ? { masquerade: preferredInterfaceMasquerade } : {}),
  };
}

type PreferredDevices = NonNullable<PreferenceSpec["devices"]>;
type Devices = NonNullable<VmiSpec["domain"]["devices"]>;

function preferredFields(devices: Devices, likes: PreferredDevices): Devices {
  const { preferredVideoType } = likes;
  const liked = omitUnset({
    autoattachGraphicsDevice: likes.preferredAutoattachGraphicsDevice,
    autoattachInputDevice: likes.preferredAutoattachInputDevice,
    autoattachMemBalloon: likes.preferredAutoattachMemBalloon,
    autoattachPodInterface: likes.preferredAutoattachPodInterface,
    autoattachSerialConsole: likes.preferredAutoattachSerialConsole,
    blockMultiQueue: likes.preferredBlockMultiQueue,
    networkInterfaceMultiqueue: likes.preferredNetworkInterfaceMultiQueue,
    useVirtioTransitional: likes.preferredUseVirtioTransitional,
    rng: likes.preferredRng,
    tpm: likes.preferredTPM,
    ...(isUnset(preferredVideoType) ? {} : { video: { type: preferredVideoType } }),
  });
  const disableHotplug = likes.preferredDisableHotplug;
  return { ...liked, ...devices, ...omitUnset({ disableHotplug }) } as Devices;
}

function preferredInputs({ inputs }: Devices, likes: PreferredDevices): Pick<Devices, "inputs"> {
  if (inputs === undefined) return {};
  const { preferredInputBus: bus = "", preferredInputType: type = "" } = likes;
  return {
    inputs: inputs.map((input) => ({
      ...input,
      ...(isUnset(input.bus) && bus !== "" ? { bus } : {}),
      ...(isUnset(input.type) && type !== "" ? { type } : {}),
    })),
  };
}

function asObjects(value: unknown): readonly Readonly<Record<string, unknown>>[] {
  // The schema has validated it.
  return Array.isArray(value) ? (value as readonly Readonly<Record<string, unknown>>[]) : [];
}

/** Sets devices that Patchbay does not support, so that validation rejects them as if the VM named them. */
function unsupportedDevices(
  devices: Devices,
  likes: PreferredDevices,
): Pick<Devices, "panicDevices" | "sound"> {
  const { preferredPanicDeviceModel: panic = "", preferredSoundModel: model = "" } = likes;
  const named = asObjects(devices.panicDevices);
  const panicDevices = named.length === 0 ? [{}] : named;
  const sound = devices.sound as Readonly<Record<string, unknown>> | undefined;
  return {
    ...(panic === ""
      ? {}
      : { panicDevices: panicDevices.map((device) => ({ model: panic, ...device })) }),
    ...(sound === undefined || model === "" ? {} : { sound: { model, ...sound } }),
  };
}

function preferredDisks(spec: VmiSpec, likes: PreferredDevices): Pick<Devices, "disks"> {
  const { domain, volumes = [] } = withCurrentFieldNames(spec);
  const disks = withDisksOfVolumes(domain.devices?.disks ?? [], volumes);
  return disks.length === 0 ? {} : { disks: disks.map((disk) => preferredDisk(disk, likes)) };
}

function preferredNics(spec: VmiSpec, likes: PreferredDevices): Pick<Devices, "interfaces"> {
  if (spec.domain.devices?.interfaces === undefined) return {};
  const networks = networksOf(spec);
  return { interfaces: ifacesOf(spec).map((iface) => preferredIface(iface, networks, likes)) };
}

function preferredDevices(spec: VmiSpec, likes: PreferredDevices | undefined): VmiSpec {
  if (likes === undefined) return spec;
  const devices = spec.domain.devices ?? {};
  return {
    ...spec,
    domain: {
      ...spec.domain,
      devices: {
        ...preferredFields(devices, likes),
        ...preferredInputs(devices, likes),
        ...unsupportedDevices(devices, likes),
        ...preferredDisks(spec, likes),
        ...preferredNics(spec, likes),
      },
    },
  };
}

type Domain = VmiSpec["domain"];
type Firmware = NonNullable<Domain["firmware"]>;
type Bootloader = NonNullable<Firmware["bootloader"]>;

function preferredCpu({ cpu }: Domain, likes: PreferenceSpec): Pick<Domain, "cpu"> {
  const liked = likes.cpu?.preferredCPUFeatures ?? [];
  if (liked.length === 0) return {};
  const own = cpu?.features ?? [];
  const more = liked.filter(({ name }) => findByName(own, name) === undefined);
  return { cpu: { ...cpu, features: [...own, ...more] } };
}

/** The preferred ACPI replaces the template's, as in KubeVirt. */
function preferredFeatures({ features }: Domain, likes: PreferenceSpec): Pick<Domain, "features"> {
  if (likes.features === undefined) return {};
  const { preferredAcpi, preferredApic, preferredKvm } = likes.features;
  const { preferredPvspinlock, preferredSmm, preferredHyperv } = likes.features;
  const passthrough = features?.hypervPassthrough;
  const isPassedThrough = isJsonObject(passthrough) && passthrough["enabled"] === true;
  const hyperv = isJsonObject(preferredHyperv)
    ? { ...preferredHyperv, ...(features?.hyperv as object | undefined) }
    : undefined;
  return {
    features: {
      ...omitUnset({ apic: preferredApic, kvm: preferredKvm }),
      ...omitUnset({ pvspinlock: preferredPvspinlock, smm: preferredSmm }),
      ...features,
      ...omitUnset({ acpi: preferredAcpi }),
      ...(isPassedThrough ? {} : omitUnset({ hyperv })),
    },
  };
}

function preferredEfiLoader(likes: NonNullable<PreferenceSpec["firmware"]>): Bootloader["efi"] {
  if (likes.preferredEfi !== undefined) return likes.preferredEfi;
  if (likes.preferredUseEfi !== true) return undefined;
  return omitUnset({ secureBoot: likes.preferredUseSecureBoot });
}

function preferredBootloader(
  own: Bootloader,
  likes: NonNullable<PreferenceSpec["firmware"]>,
): Bootloader {
  const serial = omitUnset({ useSerial: likes.preferredUseBiosSerial });
  if (own.bios !== undefined) return { ...own, bios: { ...serial, ...own.bios } };
  if (own.efi !== undefined) {
    const secure = likes.preferredEfi === undefined ? likes.preferredUseSecureBoot : undefined;
    return { ...own, efi: { ...omitUnset({ secureBoot: secure }), ...own.efi } };
  }
  if (likes.preferredUseBios === true) return { ...own, bios: serial };
  return { ...own, ...omitUnset({ efi: preferredEfiLoader(likes) }) };
}

function preferredFirmware({ firmware }: Domain, likes: PreferenceSpec): Pick<Domain, "firmware"> {
  if (likes.firmware === undefined) return {};
  const own = firmware?.bootloader ?? {};
  const bootloader = preferredBootloader(own, likes.firmware);
  return Object.keys(bootloader).length === 0 ? {} : { firmware: { ...firmware, bootloader } };
}

function preferredMachine({ machine }: Domain, likes: PreferenceSpec): Pick<Domain, "machine"> {
  const type = likes.machine?.preferredMachineType ?? "";
  return type === "" || !isUnset(machine?.type) ? {} : { machine: { ...machine, type } };
}

/** Offset and timezone are replaced together or not at all. */
function preferredClock({ clock }: Domain, likes: PreferenceSpec): Pick<Domain, "clock"> {
  if (likes.clock === undefined) return {};
  const { preferredClockOffset = {}, preferredTimer } = likes.clock;
  const isOpen = clock?.utc === undefined && clock?.timezone === undefined;
  return {
    clock: {
      ...omitUnset({ timer: preferredTimer }),
      ...clock,
      ...(isOpen ? preferredClockOffset : {}),
    },
  };
}

function preferredDomain(domain: Domain, likes: PreferenceSpec): Domain {
  return {
    ...domain,
    ...preferredCpu(domain, likes),
    ...preferredFeatures(domain, likes),
    ...preferredFirmware(domain, likes),
    ...preferredMachine(domain, likes),
    ...preferredClock(domain, likes),
  };
}

function preferredVmiFields(spec: VmiSpec, likes: PreferenceSpec): Partial<VmiSpec> {
  const { preferredSubdomain = "", preferredArchitecture = "" } = likes;
  const grace = spec.terminationGracePeriodSeconds ?? likes.preferredTerminationGracePeriodSeconds;
  return {
    ...omitUnset({ terminationGracePeriodSeconds: grace }),
    ...(preferredSubdomain !== "" && isUnset(spec.subdomain)
      ? { subdomain: preferredSubdomain }
      : {}),
    ...(preferredArchitecture !== "" && isUnset(spec.architecture)
      ? { architecture: preferredArchitecture }
      : {}),
  };
}

export function withPreference(template: Template, likes: PreferenceSpec): Template {
  const spec = preferredDevices(template.spec, likes.devices);
  const annotations = { ...likes.annotations, ...template.metadata?.annotations };
  const metadata =
    likes.annotations === undefined ? template.metadata : { ...template.metadata, annotations };
  return {
    ...template,
    ...omitUnset({ metadata }),
    spec: {
      ...spec,
      ...preferredVmiFields(spec, likes),
      domain: preferredDomain(spec.domain, likes),
    },
  };
}
