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

function hardDisk(declared: Disk, preference: PreferredDevices): Disk {
  const disk = withBus(declared.disk ?? {}, preference.preferredDiskBus);
  const preferredIfUnset = (name: "blockSize" | "cache" | "io", preferred: unknown): unknown =>
    isUnset(declared[name]) && !isUnset(preferred) ? preferred : undefined;
  const ownThread = disk.bus === "virtio" ? preference.preferredDiskDedicatedIoThread : undefined;
  return {
    ...declared,
    disk,
    ...(omitUnset({
      blockSize: preferredIfUnset("blockSize", preference.preferredDiskBlockSize),
      cache: preferredIfUnset("cache", preference.preferredDiskCache),
      io: preferredIfUnset("io", preference.preferredDiskIO),
      dedicatedIOThread: declared.dedicatedIOThread ?? ownThread,
    }) as Partial<Disk>),
  };
}

function preferredDisk(disk: Disk, preference: PreferredDevices): Disk {
  if (disk.cdrom !== undefined && disk.disk === undefined) {
    return { ...disk, cdrom: withBus(disk.cdrom, preference.preferredCdromBus) };
  }
  if (disk.lun !== undefined && disk.disk === undefined) {
    return { ...disk, lun: withBus(disk.lun, preference.preferredLunBus) };
  }
  return disk.floppy === undefined ? hardDisk(disk, preference) : disk;
}

function isUnboundOnPodNetwork(iface: Iface, networks: readonly Network[]): boolean {
  return listBindings(iface).length === 0 && findByName(networks, iface.name)?.pod !== undefined;
}

function preferredIface(
  iface: Iface,
  networks: readonly Network[],
  { preferredInterfaceModel = "", preferredInterfaceMasquerade }: PreferredDevices,
): Iface {
  const needsModel = preferredInterfaceModel !== "" && isUnset(iface.model);
  const needsBinding =
    preferredInterfaceMasquerade !== undefined && isUnboundOnPodNetwork(iface, networks);
  return {
    ...iface,
    ...(needsModel ? { model: preferredInterfaceModel } : {}),
    ...(needsBinding ? { masquerade: preferredInterfaceMasquerade } : {}),
  };
}

type PreferredDevices = NonNullable<PreferenceSpec["devices"]>;
type Devices = NonNullable<VmiSpec["domain"]["devices"]>;

function preferredFields(devices: Devices, preference: PreferredDevices): Devices {
  const { preferredVideoType } = preference;
  const defaults = omitUnset({
    autoattachGraphicsDevice: preference.preferredAutoattachGraphicsDevice,
    autoattachInputDevice: preference.preferredAutoattachInputDevice,
    autoattachMemBalloon: preference.preferredAutoattachMemBalloon,
    autoattachPodInterface: preference.preferredAutoattachPodInterface,
    autoattachSerialConsole: preference.preferredAutoattachSerialConsole,
    blockMultiQueue: preference.preferredBlockMultiQueue,
    networkInterfaceMultiqueue: preference.preferredNetworkInterfaceMultiQueue,
    useVirtioTransitional: preference.preferredUseVirtioTransitional,
    rng: preference.preferredRng,
    tpm: preference.preferredTPM,
    ...(isUnset(preferredVideoType) ? {} : { video: { type: preferredVideoType } }),
  });
  const disableHotplug = preference.preferredDisableHotplug;
  return { ...defaults, ...devices, ...omitUnset({ disableHotplug }) } as Devices;
}

function preferredInputs(
  { inputs }: Devices,
  preference: PreferredDevices,
): Pick<Devices, "inputs"> {
  if (inputs === undefined) return {};
  const { preferredInputBus: bus = "", preferredInputType: type = "" } = preference;
  return {
    inputs: inputs.map((input) => ({
      ...input,
      ...(isUnset(input.bus) && bus !== "" ? { bus } : {}),
      ...(isUnset(input.type) && type !== "" ? { type } : {}),
    })),
  };
}

function asObjects(value: unknown): readonly Readonly<Record<string, unknown>>[] {
  // The schema has validated the items.
  return Array.isArray(value) ? (value as readonly Readonly<Record<string, unknown>>[]) : [];
}

/** Sets devices that Patchbay does not support, so that validation rejects them as if the VM requested them. */
function unsupportedDevices(
  devices: Devices,
  preference: PreferredDevices,
): Pick<Devices, "panicDevices" | "sound"> {
  const { preferredPanicDeviceModel: panic = "", preferredSoundModel: model = "" } = preference;
  const declared = asObjects(devices.panicDevices);
  const panicDevices = declared.length === 0 ? [{}] : declared;
  const sound = devices.sound as Readonly<Record<string, unknown>> | undefined;
  return {
    ...(panic === ""
      ? {}
      : { panicDevices: panicDevices.map((device) => ({ model: panic, ...device })) }),
    ...(sound === undefined || model === "" ? {} : { sound: { model, ...sound } }),
  };
}

function preferredDisks(spec: VmiSpec, preference: PreferredDevices): Pick<Devices, "disks"> {
  const { domain, volumes = [] } = withCurrentFieldNames(spec);
  const disks = withDisksOfVolumes(domain.devices?.disks ?? [], volumes);
  return disks.length === 0 ? {} : { disks: disks.map((disk) => preferredDisk(disk, preference)) };
}

function preferredNics(spec: VmiSpec, preference: PreferredDevices): Pick<Devices, "interfaces"> {
  if (spec.domain.devices?.interfaces === undefined) return {};
  const networks = networksOf(spec);
  return { interfaces: ifacesOf(spec).map((iface) => preferredIface(iface, networks, preference)) };
}

function preferredDevices(spec: VmiSpec, preference: PreferredDevices | undefined): VmiSpec {
  if (preference === undefined) return spec;
  const devices = spec.domain.devices ?? {};
  return {
    ...spec,
    domain: {
      ...spec.domain,
      devices: {
        ...preferredFields(devices, preference),
        ...preferredInputs(devices, preference),
        ...unsupportedDevices(devices, preference),
        ...preferredDisks(spec, preference),
        ...preferredNics(spec, preference),
      },
    },
  };
}

type Domain = VmiSpec["domain"];
type Firmware = NonNullable<Domain["firmware"]>;
type Bootloader = NonNullable<Firmware["bootloader"]>;

function preferredCpu({ cpu }: Domain, preference: PreferenceSpec): Pick<Domain, "cpu"> {
  const preferred = preference.cpu?.preferredCPUFeatures ?? [];
  if (preferred.length === 0) return {};
  const own = cpu?.features ?? [];
  const missing = preferred.filter(({ name }) => findByName(own, name) === undefined);
  return { cpu: { ...cpu, features: [...own, ...missing] } };
}

/** Merges the features. As in KubeVirt, the preferred ACPI replaces the template's. */
function preferredFeatures(
  { features }: Domain,
  preference: PreferenceSpec,
): Pick<Domain, "features"> {
  if (preference.features === undefined) return {};
  const { preferredAcpi, preferredApic, preferredKvm } = preference.features;
  const { preferredPvspinlock, preferredSmm, preferredHyperv } = preference.features;
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

function preferredEfiLoader(
  preference: NonNullable<PreferenceSpec["firmware"]>,
): Bootloader["efi"] {
  if (preference.preferredEfi !== undefined) return preference.preferredEfi;
  if (preference.preferredUseEfi !== true) return undefined;
  return omitUnset({ secureBoot: preference.preferredUseSecureBoot });
}

function preferredBootloader(
  own: Bootloader,
  preference: NonNullable<PreferenceSpec["firmware"]>,
): Bootloader {
  const serial = omitUnset({ useSerial: preference.preferredUseBiosSerial });
  if (own.bios !== undefined) return { ...own, bios: { ...serial, ...own.bios } };
  if (own.efi !== undefined) {
    const secure =
      preference.preferredEfi === undefined ? preference.preferredUseSecureBoot : undefined;
    return { ...own, efi: { ...omitUnset({ secureBoot: secure }), ...own.efi } };
  }
  if (preference.preferredUseBios === true) return { ...own, bios: serial };
  return { ...own, ...omitUnset({ efi: preferredEfiLoader(preference) }) };
}

function preferredFirmware(
  { firmware }: Domain,
  preference: PreferenceSpec,
): Pick<Domain, "firmware"> {
  if (preference.firmware === undefined) return {};
  const own = firmware?.bootloader ?? {};
  const bootloader = preferredBootloader(own, preference.firmware);
  return Object.keys(bootloader).length === 0 ? {} : { firmware: { ...firmware, bootloader } };
}

function preferredMachine(
  { machine }: Domain,
  preference: PreferenceSpec,
): Pick<Domain, "machine"> {
  const type = preference.machine?.preferredMachineType ?? "";
  return type === "" || !isUnset(machine?.type) ? {} : { machine: { ...machine, type } };
}

/** Applies the preferred clock. The preferred offset has no effect if the template sets `utc` or `timezone`. */
function preferredClock({ clock }: Domain, preference: PreferenceSpec): Pick<Domain, "clock"> {
  if (preference.clock === undefined) return {};
  const { preferredClockOffset = {}, preferredTimer } = preference.clock;
  const hasNoOffset = clock?.utc === undefined && clock?.timezone === undefined;
  return {
    clock: {
      ...omitUnset({ timer: preferredTimer }),
      ...clock,
      ...(hasNoOffset ? preferredClockOffset : {}),
    },
  };
}

function preferredDomain(domain: Domain, preference: PreferenceSpec): Domain {
  return {
    ...domain,
    ...preferredCpu(domain, preference),
    ...preferredFeatures(domain, preference),
    ...preferredFirmware(domain, preference),
    ...preferredMachine(domain, preference),
    ...preferredClock(domain, preference),
  };
}

function preferredVmiFields(spec: VmiSpec, preference: PreferenceSpec): Partial<VmiSpec> {
  const { preferredSubdomain = "", preferredArchitecture = "" } = preference;
  const grace =
    spec.terminationGracePeriodSeconds ?? preference.preferredTerminationGracePeriodSeconds;
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

export function withPreference(template: Template, preference: PreferenceSpec): Template {
  const spec = preferredDevices(template.spec, preference.devices);
  const annotations = { ...preference.annotations, ...template.metadata?.annotations };
  const metadata =
    preference.annotations === undefined
      ? template.metadata
      : { ...template.metadata, annotations };
  return {
    ...template,
    ...omitUnset({ metadata }),
    spec: {
      ...spec,
      ...preferredVmiFields(spec, preference),
      domain: preferredDomain(spec.domain, preference),
    },
  };
}
