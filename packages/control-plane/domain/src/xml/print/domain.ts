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
import { withoutUndefined, onOff, yesNo, type Element } from "./element.ts";
import Builder from "fast-xml-builder";
import {
  agentControllers,
  agentElements,
  consoleElements,
  optionalDevices,
  pciControllers,
  controllerElement,
  diskElement,
  nicElement,
} from "./devices.ts";

function kernelElements({ path, initrdPath, args }: KernelDefinition): Element {
  return withoutUndefined({ kernel: path, initrd: initrdPath, cmdline: args });
}

function firmwareElements(firmware: FirmwareDefinition): Element {
  if (firmware.kind === "bios") return firmware.usesSerial ? { bios: { "@useserial": "yes" } } : {};
  return {
    loader: {
      "@readonly": "yes",
      "@secure": yesNo(firmware.secureBoot),
      "@type": "pflash",
      "#text": firmware.codePath,
    },
    nvram: { "@template": firmware.templatePath, "#text": firmware.variablesPath },
  };
}

function hasIdentity({ serial, chassis }: IdentityDefinition): boolean {
  return serial !== undefined || chassis !== undefined;
}

function osElement({ machine, kernel, firmware, identity }: DomainDefinition): Element {
  return {
    type: { "@arch": "x86_64", "@machine": machine, "#text": "hvm" },
    ...firmwareElements(firmware),
    ...(kernel === undefined ? {} : kernelElements(kernel)),
    ...(hasIdentity(identity) ? { smbios: { "@mode": "sysinfo" } } : {}),
  };
}

function sysinfoEntries(values: Readonly<Record<string, string | undefined>>): Element {
  const present = Object.entries(values).filter(([, value]) => value !== undefined);
  return { entry: present.map(([name, value]) => ({ "@name": name, "#text": value })) };
}

function identityElements({ identity, uuid }: DomainDefinition): Element {
  if (!hasIdentity(identity)) return {};
  const { serial, chassis } = identity;
  return {
    sysinfo: {
      "@type": "smbios",
      system: sysinfoEntries({ uuid, serial }),
      ...(chassis === undefined ? {} : { chassis: sysinfoEntries(chassis) }),
    },
  };
}

function modelElements(model: CpuDefinition["model"]): Element {
  if (model === undefined) return {};
  if (model.mode !== "custom") return { "@mode": model.mode };
  // `forbid` prevents that libvirt substitutes another model.
  return {
    "@mode": "custom",
    "@match": "exact",
    model: { "@fallback": "forbid", "#text": model.name },
  };
}

function cpuElements({ model, topology, features }: CpuDefinition): Element {
  if (model === undefined && topology === undefined && features.length === 0) return {};
  return {
    cpu: withoutUndefined({
      ...modelElements(model),
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

/**
 * Limit of QEMU's cache of translated code, in MiB. Without a limit the cache grows to 1 GiB over several reboots, and
 * the launcher runs out of memory (measured: after 2 to 4 resets of a guest of 128 MiB).
 */
const TRANSLATION_CACHE_MIB = 96;

/** Limits the translation cache of emulated guests. Source: libvirt formatdomain, "Hypervisor features". */
function translationCacheElement({ accelerator }: DomainDefinition): Element {
  if (accelerator === "kvm") return {};
  return { tcg: { "tb-cache": { "@unit": "MiB", "#text": String(TRANSLATION_CACHE_MIB) } } };
}

function featuresElement(definition: DomainDefinition): Element {
  const { acpi, apic, apicEndOfInterrupt, smm, kvmHidden, pvspinlock } = definition.features;
  const endOfInterrupt =
    apicEndOfInterrupt === undefined ? "" : { "@eoi": onOff(apicEndOfInterrupt) };
  return withoutUndefined({
    acpi: acpi ? "" : undefined,
    apic: apic ? endOfInterrupt : undefined,
    kvm: kvmHidden === undefined ? undefined : { hidden: { "@state": onOff(kvmHidden) } },
    pvspinlock: pvspinlock === undefined ? undefined : { "@state": onOff(pvspinlock) },
    smm: smm === undefined ? undefined : { "@state": onOff(smm) },
    ...translationCacheElement(definition),
  });
}

function timerElement({ name, isPresent, tickPolicy, track }: TimerDefinition): Element {
  return withoutUndefined({
    "@name": name,
    "@present": yesNo(isPresent),
    "@tickpolicy": tickPolicy,
    "@track": track,
  });
}

function offsetElement(offset: ClockDefinition["offset"]): Element {
  if (offset.kind === "utc") return { "@offset": "utc" };
  return offset.kind === "seconds"
    ? { "@offset": "variable", "@adjustment": String(offset.seconds), "@basis": "utc" }
    : { "@offset": "timezone", "@timezone": offset.timezone };
}

function clockElement({ offset, timers }: ClockDefinition): Element {
  return { ...offsetElement(offset), timer: timers.map(timerElement) };
}

const builder = new Builder({
  ignoreAttributes: false,
  attributeNamePrefix: "@",
  format: true,
  suppressEmptyNode: true,
});

/** XML namespace of QEMU's extensions. Source: libvirt drvqemu. */
const QEMU_NAMESPACE = "http://libvirt.org/schemas/domain/qemu/1.0";

function memoryBacking(definition: DomainDefinition): Element {
  const shared = { source: { "@type": "memfd" }, access: { "@mode": "shared" } };
  return definition.sharesMemory ? { memoryBacking: shared } : {};
}

/** Disables the USB controller that libvirt adds by default, unless the definition has one. */
function usbControllers({ controllers }: DomainDefinition): readonly Element[] {
  const hasUsb = controllers.some(({ type }) => type === "usb");
  return hasUsb ? [] : [{ "@type": "usb", "@index": "0", "@model": "none" }];
}

function devicesElement(definition: DomainDefinition): Element {
  return {
    controller: [
      ...usbControllers(definition),
      ...pciControllers(definition),
      ...agentControllers(definition),
      ...definition.controllers.map(controllerElement),
    ],
    disk: definition.disks.map(diskElement),
    interface: definition.nics.map(nicElement),
    ...consoleElements(definition),
    ...agentElements(definition),
    ...optionalDevices(definition),
    memballoon: { "@model": "none" },
  };
}

function ioThreads({ ioThreads: count }: DomainDefinition): Element {
  return count === 0 ? {} : { iothreads: String(count) };
}

/**
 * QEMU arguments that also apply to NICs plugged later. Source: QEMU hw/virtio/virtio-net-pci.c, property `vectors` of
 * virtio-net-pci-base.
 */
const NO_VECTORS_ARGUMENTS = ["-global", "virtio-net-pci-base.vectors=0"];

/**
 * Sets QEMU properties that libvirt's XML lacks. Source: libvirt drvqemu, "Overriding properties of QEMU devices"; QEMU
 * hw/block/block.c.
 */
function overrideElements({ disks }: DomainDefinition): Element {
  const devices = disks.flatMap(({ alias, blockSize }) => {
    const value = blockSize?.discardGranularity;
    if (value === undefined) return [];
    const property = { "@name": "discard_granularity", "@type": "unsigned", "@value": value };
    return [{ "@alias": alias, "qemu:frontend": { "qemu:property": property } }];
  });
  return devices.length === 0 ? {} : { "qemu:override": { "qemu:device": devices } };
}

function commandLine({ hasNoNicVectors }: DomainDefinition): Element {
  const args = hasNoNicVectors === true ? NO_VECTORS_ARGUMENTS : [];
  if (args.length === 0) return {};
  return { "qemu:commandline": { "qemu:arg": args.map((arg) => ({ "@value": arg })) } };
}

function qemuElements(definition: DomainDefinition): Element {
  const elements = { ...commandLine(definition), ...overrideElements(definition) };
  const isEmpty = Object.keys(elements).length === 0;
  return isEmpty ? {} : { "@xmlns:qemu": QEMU_NAMESPACE, ...elements };
}

/** Prints the XML for `virDomainDefineXML`. */
export function printDomain(definition: DomainDefinition): string {
  return builder.build({
    domain: {
      "@type": definition.accelerator,
      name: definition.name,
      uuid: definition.uuid,
      memory: { "@unit": "MiB", "#text": String(definition.memoryMiB) },
      ...memoryBacking(definition),
      vcpu: String(definition.vcpus),
      ...ioThreads(definition),
      ...identityElements(definition),
      os: osElement(definition),
      features: featuresElement(definition),
      ...cpuElements(definition.cpu),
      clock: clockElement(definition.clock),
      on_poweroff: "destroy",
      on_reboot: "restart",
      on_crash: "destroy",
      devices: devicesElement(definition),
      ...qemuElements(definition),
    },
  });
}

/** Prints the XML for `virDomainAttachDeviceFlags`. Source: libvirt formatdomain, "Network interfaces". */
export function printNic(nic: NicDefinition): string {
  return builder.build({ interface: nicElement(nic) });
}
