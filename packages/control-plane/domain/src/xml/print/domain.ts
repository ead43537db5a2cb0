// SPDX-License-Identifier: Apache-2.0
// Prints the XML of a domain or a NIC. Source: libvirt formatdomain.
import type {
  DomainDefinition,
  ClockDefinition,
  CpuDefinition,
  FirmwareDefinition,
  IdentityDefinition,
  KernelDefinition,
  TimerDefinition,
  NicDefinition,
} from "../../definition.ts";
import { omitUndefinedMembers, toOnOff, toYesNo, type Element } from "./element.ts";
import Builder from "fast-xml-builder";
import {
  buildAgentControllers,
  buildAgentElements,
  buildConsoleElements,
  buildOptionalDevices,
  buildPciControllers,
  buildControllerElement,
  buildDiskElement,
  buildNicElement,
} from "./devices.ts";

function buildKernelElements({ path, initrdPath, args }: KernelDefinition): Element {
  return omitUndefinedMembers({ kernel: path, initrd: initrdPath, cmdline: args });
}

function buildFirmwareElements(firmware: FirmwareDefinition): Element {
  if (firmware.kind === "bios") return firmware.usesSerial ? { bios: { "@useserial": "yes" } } : {};
  return {
    loader: {
      "@readonly": "yes",
      "@secure": toYesNo(firmware.secureBoot),
      "@type": "pflash",
      "#text": firmware.codePath,
    },
    nvram: { "@template": firmware.templatePath, "#text": firmware.variablesPath },
  };
}

function hasIdentity({ serial, chassis }: IdentityDefinition): boolean {
  return serial !== undefined || chassis !== undefined;
}

function buildOsElement({ machine, kernel, firmware, identity }: DomainDefinition): Element {
  return {
    type: { "@arch": "x86_64", "@machine": machine, "#text": "hvm" },
    ...buildFirmwareElements(firmware),
    ...(kernel === undefined ? {} : buildKernelElements(kernel)),
    ...(hasIdentity(identity) ? { smbios: { "@mode": "sysinfo" } } : {}),
  };
}

function buildSysinfoEntries(values: Readonly<Record<string, string | undefined>>): Element {
  const present = Object.entries(values).filter(([, value]) => value !== undefined);
  return { entry: present.map(([name, value]) => ({ "@name": name, "#text": value })) };
}

function buildIdentityElements({ identity, uuid }: DomainDefinition): Element {
  if (!hasIdentity(identity)) return {};
  const { serial, chassis } = identity;
  return {
    sysinfo: {
      "@type": "smbios",
      system: buildSysinfoEntries({ uuid, serial }),
      ...(chassis === undefined ? {} : { chassis: buildSysinfoEntries(chassis) }),
    },
  };
}

function buildModelElements(model: CpuDefinition["model"]): Element {
  if (model === undefined) return {};
  if (model.mode !== "custom") return { "@mode": model.mode };
  // `forbid` prevents libvirt from using another CPU model instead.
  return {
    "@mode": "custom",
    "@match": "exact",
    model: { "@fallback": "forbid", "#text": model.name },
  };
}

function buildCpuElements({ model, topology, features }: CpuDefinition): Element {
  if (model === undefined && topology === undefined && features.length === 0) return {};
  return {
    cpu: omitUndefinedMembers({
      ...buildModelElements(model),
      topology:
        topology === undefined
          ? undefined
          : {
              "@sockets": String(topology.sockets),
              "@cores": String(topology.cores),
              "@threads": String(topology.threads),
            },
      feature: features.map(({ name, policy }) => ({ "@policy": policy, "@name": name })),
    }),
  };
}

/** Limit of QEMU's cache of translated code, in MiB. Without it, the cache grows to 1 GiB over several reboots (measured). */
const TRANSLATION_CACHE_MIB = 96;

/** Limits the translation cache of emulated guests. Source: libvirt formatdomain, "Hypervisor features". */
function buildTranslationCacheElement({ accelerator }: DomainDefinition): Element {
  if (accelerator === "kvm") return {};
  return { tcg: { "tb-cache": { "@unit": "MiB", "#text": String(TRANSLATION_CACHE_MIB) } } };
}

function buildFeaturesElement(definition: DomainDefinition): Element {
  const { acpi, apic, apicEndOfInterrupt, smm, kvmHidden, pvspinlock } = definition.features;
  const endOfInterrupt =
    apicEndOfInterrupt === undefined ? "" : { "@eoi": toOnOff(apicEndOfInterrupt) };
  return omitUndefinedMembers({
    acpi: acpi ? "" : undefined,
    apic: apic ? endOfInterrupt : undefined,
    kvm: kvmHidden === undefined ? undefined : { hidden: { "@state": toOnOff(kvmHidden) } },
    pvspinlock: pvspinlock === undefined ? undefined : { "@state": toOnOff(pvspinlock) },
    smm: smm === undefined ? undefined : { "@state": toOnOff(smm) },
    ...buildTranslationCacheElement(definition),
  });
}

function buildTimerElement({ name, isPresent, tickPolicy, track }: TimerDefinition): Element {
  return omitUndefinedMembers({
    "@name": name,
    "@present": toYesNo(isPresent),
    "@tickpolicy": tickPolicy,
    "@track": track,
  });
}

function buildOffsetElement(offset: ClockDefinition["offset"]): Element {
  if (offset.kind === "utc") return { "@offset": "utc" };
  return offset.kind === "seconds"
    ? { "@offset": "variable", "@adjustment": String(offset.seconds), "@basis": "utc" }
    : { "@offset": "timezone", "@timezone": offset.timezone };
}

function buildClockElement({ offset, timers }: ClockDefinition): Element {
  return { ...buildOffsetElement(offset), timer: timers.map(buildTimerElement) };
}

const builder = new Builder({
  ignoreAttributes: false,
  attributeNamePrefix: "@",
  format: true,
  suppressEmptyNode: true,
});

/** XML namespace of QEMU's extensions. Source: libvirt drvqemu. */
const QEMU_NAMESPACE = "http://libvirt.org/schemas/domain/qemu/1.0";

function buildMemoryBacking(definition: DomainDefinition): Element {
  const sharedMemory = { source: { "@type": "memfd" }, access: { "@mode": "shared" } };
  return definition.sharesMemory ? { memoryBacking: sharedMemory } : {};
}

/** Disables the USB controller that libvirt adds by default, unless the definition has one. */
function buildUsbControllers({ controllers }: DomainDefinition): readonly Element[] {
  const hasUsb = controllers.some(({ type }) => type === "usb");
  return hasUsb ? [] : [{ "@type": "usb", "@index": "0", "@model": "none" }];
}

function buildDevicesElement(definition: DomainDefinition): Element {
  return {
    controller: [
      ...buildUsbControllers(definition),
      ...buildPciControllers(definition),
      ...buildAgentControllers(definition),
      ...definition.controllers.map(buildControllerElement),
    ],
    disk: definition.disks.map(buildDiskElement),
    interface: definition.nics.map(buildNicElement),
    ...buildConsoleElements(definition),
    ...buildAgentElements(definition),
    ...buildOptionalDevices(definition),
    memballoon: { "@model": "none" },
  };
}

function ioThreads({ ioThreads: count }: DomainDefinition): Element {
  return count === 0 ? {} : { iothreads: String(count) };
}

/** QEMU arguments that disable MSI-X vectors of all virtio NICs, including hotplugged NICs. Source: QEMU hw/virtio/virtio-net-pci.c. */
const NO_VECTORS_ARGUMENTS = ["-global", "virtio-net-pci-base.vectors=0"];

/** Sets QEMU properties that have no libvirt element. Source: libvirt drvqemu; QEMU hw/block/block.c. */
function buildOverrideElements({ disks }: DomainDefinition): Element {
  const devices = disks.flatMap(({ alias, blockSize }) => {
    const value = blockSize?.discardGranularity;
    if (value === undefined) return [];
    const property = { "@name": "discard_granularity", "@type": "unsigned", "@value": value };
    return [{ "@alias": alias, "qemu:frontend": { "qemu:property": property } }];
  });
  return devices.length === 0 ? {} : { "qemu:override": { "qemu:device": devices } };
}

function buildCommandLine({ hasNoNicVectors }: DomainDefinition): Element {
  const args = hasNoNicVectors === true ? NO_VECTORS_ARGUMENTS : [];
  if (args.length === 0) return {};
  return { "qemu:commandline": { "qemu:arg": args.map((arg) => ({ "@value": arg })) } };
}

function buildQemuElements(definition: DomainDefinition): Element {
  const elements = { ...buildCommandLine(definition), ...buildOverrideElements(definition) };
  const isEmpty = Object.keys(elements).length === 0;
  return isEmpty ? {} : { "@xmlns:qemu": QEMU_NAMESPACE, ...elements };
}

export function printDomain(definition: DomainDefinition): string {
  return builder.build({
    domain: {
      "@type": definition.accelerator,
      name: definition.name,
      uuid: definition.uuid,
      memory: { "@unit": "MiB", "#text": String(definition.memoryMiB) },
      ...buildMemoryBacking(definition),
      vcpu: String(definition.vcpus),
      ...ioThreads(definition),
      ...buildIdentityElements(definition),
      os: buildOsElement(definition),
      features: buildFeaturesElement(definition),
      ...buildCpuElements(definition.cpu),
      clock: buildClockElement(definition.clock),
      on_poweroff: "destroy",
      on_reboot: "restart",
      on_crash: "destroy",
      devices: buildDevicesElement(definition),
      ...buildQemuElements(definition),
    },
  });
}

/** Prints the XML for `virDomainAttachDeviceFlags`. Source: libvirt formatdomain, "Network interfaces". */
export function printNic(nic: NicDefinition): string {
  return builder.build({ interface: buildNicElement(nic) });
}
