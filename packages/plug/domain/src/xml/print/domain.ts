// SPDX-License-Identifier: Apache-2.0
// Writes the XML of a domain and of a NIC.
import Builder from "fast-xml-builder";
import type { DomainDefinition } from "../../definition/domain.ts";
import type { NicDefinition } from "../../definition/nic.ts";
import {
  agentControllers,
  agentElements,
  consoleElements,
  optionalDevices,
  pciControllers,
} from "./devices.ts";
import { controllerElement, diskElement } from "./disk.ts";
import type { Element } from "./element.ts";
import {
  clockElement,
  cpuElements,
  featuresElement,
  identityElements,
  osElement,
} from "./machine.ts";
import { nicElement } from "./nic.ts";

const builder = new Builder({
  ignoreAttributes: false,
  attributeNamePrefix: "@",
  format: true,
  suppressEmptyNode: true,
});

/** Of the elements that are QEMU's own. Source: libvirt drvqemu. */
const QEMU_NAMESPACE = "http://libvirt.org/schemas/domain/qemu/1.0";

function memoryBacking(definition: DomainDefinition): Element {
  const shared = { source: { "@type": "memfd" }, access: { "@mode": "shared" } };
  return definition.sharesMemory ? { memoryBacking: shared } : {};
}

/** Without a word of ours libvirt gives a controller of USB. */
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
 * Of all NICs of virtio, those that come later too. Source: QEMU hw/virtio/virtio-net-pci.c, property `vectors` of
 * virtio-net-pci-base.
 */
const WITHOUT_VECTORS = ["-global", "virtio-net-pci-base.vectors=0"];

/**
 * What libvirt has no word for, which it passes on to QEMU. Source: libvirt drvqemu, "Overriding properties of QEMU
 * devices"; QEMU hw/block/block.c.
 */
function overrides({ disks }: DomainDefinition): Element {
  const devices = disks.flatMap(({ alias, blockSize }) => {
    const value = blockSize?.discardGranularity;
    if (value === undefined) return [];
    const property = { "@name": "discard_granularity", "@type": "unsigned", "@value": value };
    return [{ "@alias": alias, "qemu:frontend": { "qemu:property": property } }];
  });
  return devices.length === 0 ? {} : { "qemu:override": { "qemu:device": devices } };
}

function commandLine({ hasNoNicVectors }: DomainDefinition): Element {
  const words = hasNoNicVectors === true ? WITHOUT_VECTORS : [];
  if (words.length === 0) return {};
  return { "qemu:commandline": { "qemu:arg": words.map((word) => ({ "@value": word })) } };
}

function qemuElements(definition: DomainDefinition): Element {
  const elements = { ...commandLine(definition), ...overrides(definition) };
  const isNone = Object.keys(elements).length === 0;
  return isNone ? {} : { "@xmlns:qemu": QEMU_NAMESPACE, ...elements };
}

/** XML for `virDomainDefineXML`. Source: libvirt formatdomain. */
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

/** XML for `virDomainAttachDeviceFlags`. Source: libvirt formatdomain, "Network interfaces". */
export function printNic(nic: NicDefinition): string {
  return builder.build({ interface: nicElement(nic) });
}
