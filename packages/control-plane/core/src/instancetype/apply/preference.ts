// SPDX-License-Identifier: Apache-2.0
// Applies a preference to fields that a template leaves unset. Source: KubeVirt pkg/instancetype/preference/apply.
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

function mergeHardDisk(declared: Disk, preference: PreferredDevices): Disk {
  const disk = withBus(declared.disk ?? {}, preference.preferredDiskBus);
  const preferredIfUnset = (name: "blockSize" | "cache" | "io", preferredValue: unknown): unknown =>
    isUnset(declared[name]) && !isUnset(preferredValue) ? preferredValue : undefined;
  const preferredDedicatedThread =
    disk.bus === "virtio" ? preference.preferredDiskDedicatedIoThread : undefined;
  return {
    ...declared,
    disk,
    ...(omitUnset({
      blockSize: preferredIfUnset("blockSize", preference.preferredDiskBlockSize),
      cache: preferredIfUnset("cache", preference.preferredDiskCache),
      io: preferredIfUnset("io", preference.preferredDiskIO),
      dedicatedIOThread: declared.dedicatedIOThread ?? preferredDedicatedThread,
    }) as Partial<Disk>),
  };
}

function mergeDisk(disk: Disk, preference: PreferredDevices): Disk {
  if (disk.cdrom !== undefined && disk.disk === undefined) {
    return { ...disk, cdrom: withBus(disk.cdrom, preference.preferredCdromBus) };
  }
  if (disk.lun !== undefined && disk.disk === undefined) {
    return { ...disk, lun: withBus(disk.lun, preference.preferredLunBus) };
  }
  return disk.floppy === undefined ? mergeHardDisk(disk, preference) : disk;
}

function isUnboundOnPodNetwork(iface: Iface, networks: readonly Network[]): boolean {
  return listBindings(iface).length === 0 && findByName(networks, iface.name)?.pod !== undefined;
}

function mergeIface(
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

function mergeDeviceFields(devices: Devices, preference: PreferredDevices): Devices {
  const { preferredVideoType } = preference;
  const preferredFields = omitUnset({
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
  return { ...preferredFields, ...devices, ...omitUnset({ disableHotplug }) } as Devices;
}

function mergeInputs({ inputs }: Devices, preference: PreferredDevices): Pick<Devices, "inputs"> {
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
  // The cast is safe, because the CRD schema has validated the items.
  return Array.isArray(value) ? (value as readonly Readonly<Record<string, unknown>>[]) : [];
}

/** Copies the preferred panic and sound devices into the VM. Patchbay does not support these devices, so validation then rejects the VM. */
function mergeUnsupportedDevices(
  devices: Devices,
  preference: PreferredDevices,
): Pick<Devices, "panicDevices" | "sound"> {
  const { preferredPanicDeviceModel: panicModel = "", preferredSoundModel: model = "" } =
    preference;
  const declaredPanicDevices = asObjects(devices.panicDevices);
  const panicDevices = declaredPanicDevices.length === 0 ? [{}] : declaredPanicDevices;
  const soundDevice = devices.sound as Readonly<Record<string, unknown>> | undefined;
  return {
    ...(panicModel === ""
      ? {}
      : { panicDevices: panicDevices.map((device) => ({ model: panicModel, ...device })) }),
    ...(soundDevice === undefined || model === "" ? {} : { sound: { model, ...soundDevice } }),
  };
}

function mergeDisks(spec: VmiSpec, preference: PreferredDevices): Pick<Devices, "disks"> {
  const { domain, volumes = [] } = withCurrentFieldNames(spec);
  const disks = withDisksOfVolumes(domain.devices?.disks ?? [], volumes);
  return disks.length === 0 ? {} : { disks: disks.map((disk) => mergeDisk(disk, preference)) };
}

function mergeNicPreferences(
  spec: VmiSpec,
  preference: PreferredDevices,
): Pick<Devices, "interfaces"> {
  if (spec.domain.devices?.interfaces === undefined) return {};
  const networks = networksOf(spec);
  return { interfaces: ifacesOf(spec).map((iface) => mergeIface(iface, networks, preference)) };
}

function mergeDevices(spec: VmiSpec, preference: PreferredDevices | undefined): VmiSpec {
  if (preference === undefined) return spec;
  const devices = spec.domain.devices ?? {};
  return {
    ...spec,
    domain: {
      ...spec.domain,
      devices: {
        ...mergeDeviceFields(devices, preference),
        ...mergeInputs(devices, preference),
        ...mergeUnsupportedDevices(devices, preference),
        ...mergeDisks(spec, preference),
        ...mergeNicPreferences(spec, preference),
      },
    },
  };
}

type Domain = VmiSpec["domain"];
type Firmware = NonNullable<Domain["firmware"]>;
type Bootloader = NonNullable<Firmware["bootloader"]>;

function mergeCpu({ cpu }: Domain, preference: PreferenceSpec): Pick<Domain, "cpu"> {
  const preferredFeatures = preference.cpu?.preferredCPUFeatures ?? [];
  if (preferredFeatures.length === 0) return {};
  const templateFeatures = cpu?.features ?? [];
  const missingFeatures = preferredFeatures.filter(
    ({ name }) => findByName(templateFeatures, name) === undefined,
  );
  return { cpu: { ...cpu, features: [...templateFeatures, ...missingFeatures] } };
}

/**
 * Merges the features. The template's settings take precedence. Exceptions, as in KubeVirt: the preferred ACPI setting replaces the
 * template's, and the preferred Hyper-V features do not apply if the template enables `hypervPassthrough`.
 */
function mergeFeatures({ features }: Domain, preference: PreferenceSpec): Pick<Domain, "features"> {
  if (preference.features === undefined) return {};
  const { preferredAcpi, preferredApic, preferredKvm } = preference.features;
  const { preferredPvspinlock, preferredSmm, preferredHyperv } = preference.features;
  const passthroughFeature = features?.hypervPassthrough;
  const isPassedThrough =
    isJsonObject(passthroughFeature) && passthroughFeature["enabled"] === true;
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

function mergeEfiLoader(preference: NonNullable<PreferenceSpec["firmware"]>): Bootloader["efi"] {
  if (preference.preferredEfi !== undefined) return preference.preferredEfi;
  if (preference.preferredUseEfi !== true) return undefined;
  return omitUnset({ secureBoot: preference.preferredUseSecureBoot });
}

function mergeBootloader(
  templateBootloader: Bootloader,
  preference: NonNullable<PreferenceSpec["firmware"]>,
): Bootloader {
  const serial = omitUnset({ useSerial: preference.preferredUseBiosSerial });
  if (templateBootloader.bios !== undefined)
    return { ...templateBootloader, bios: { ...serial, ...templateBootloader.bios } };
  if (templateBootloader.efi !== undefined) {
    const secureBoot =
      preference.preferredEfi === undefined ? preference.preferredUseSecureBoot : undefined;
    return {
      ...templateBootloader,
      efi: { ...omitUnset({ secureBoot: secureBoot }), ...templateBootloader.efi },
    };
  }
  if (preference.preferredUseBios === true) return { ...templateBootloader, bios: serial };
  return { ...templateBootloader, ...omitUnset({ efi: mergeEfiLoader(preference) }) };
}

function mergeFirmware({ firmware }: Domain, preference: PreferenceSpec): Pick<Domain, "firmware"> {
  if (preference.firmware === undefined) return {};
  const templateBootloader = firmware?.bootloader ?? {};
  const bootloader = mergeBootloader(templateBootloader, preference.firmware);
  return Object.keys(bootloader).length === 0 ? {} : { firmware: { ...firmware, bootloader } };
}

function mergeMachine({ machine }: Domain, preference: PreferenceSpec): Pick<Domain, "machine"> {
  const type = preference.machine?.preferredMachineType ?? "";
  return type === "" || !isUnset(machine?.type) ? {} : { machine: { ...machine, type } };
}

function mergeClock({ clock }: Domain, preference: PreferenceSpec): Pick<Domain, "clock"> {
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

function mergeDomainPreference(domain: Domain, preference: PreferenceSpec): Domain {
  return {
    ...domain,
    ...mergeCpu(domain, preference),
    ...mergeFeatures(domain, preference),
    ...mergeFirmware(domain, preference),
    ...mergeMachine(domain, preference),
    ...mergeClock(domain, preference),
  };
}

function mergeVmiFields(spec: VmiSpec, preference: PreferenceSpec): Partial<VmiSpec> {
  const { preferredSubdomain = "", preferredArchitecture = "" } = preference;
  const graceField =
    spec.terminationGracePeriodSeconds ?? preference.preferredTerminationGracePeriodSeconds;
  return {
    ...omitUnset({ terminationGracePeriodSeconds: graceField }),
    ...(preferredSubdomain !== "" && isUnset(spec.subdomain)
      ? { subdomain: preferredSubdomain }
      : {}),
    ...(preferredArchitecture !== "" && isUnset(spec.architecture)
      ? { architecture: preferredArchitecture }
      : {}),
  };
}

export function withPreference(template: Template, preference: PreferenceSpec): Template {
  const spec = mergeDevices(template.spec, preference.devices);
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
      ...mergeVmiFields(spec, preference),
      domain: mergeDomainPreference(spec.domain, preference),
    },
  };
}
