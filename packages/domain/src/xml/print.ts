// SPDX-License-Identifier: Apache-2.0
// Writes the XML of a domain and of a NIC.
import Builder from "fast-xml-builder";
import { AGENT_CHANNEL } from "../definition/devices.ts";
import type { DomainDefinition } from "../definition/domain.ts";
import type { NicDefinition } from "../definition/nic.ts";
import { machineFamilyOf } from "../machine.ts";
import type { PciAddress } from "../pci/address.ts";
import { findNicModel } from "../nic-model.ts";

const builder = new Builder({
  ignoreAttributes: false,
  attributeNamePrefix: "@",
  format: true,
  suppressEmptyNode: true,
});

type Element = Readonly<Record<string, unknown>>;

function addressElement(address: PciAddress, multifunction = false): Element {
  return {
    "@type": "pci",
    "@domain": "0x0000",
    "@bus": `0x${address.bus.toString(16).padStart(2, "0")}`,
    "@slot": `0x${address.slot.toString(16).padStart(2, "0")}`,
    "@function": `0x${address.function.toString(16)}`,
    ...(multifunction ? { "@multifunction": "on" } : {}),
  };
}

/** A transitional device would want an I/O window, which most ports do not have. */
function modelOf(model: string, address: PciAddress): string {
  return model === "virtio" && address.bus > 0 ? "virtio-non-transitional" : model;
}

/** One pair is what a driver has anyway; a tap made for one refuses the attribute. */
function driverElement(nic: NicDefinition): Element {
  const several = nic.queues > 1 && findNicModel(nic.model)?.isMultiQueue === true;
  return several ? { driver: { "@name": "qemu", "@queues": String(nic.queues) } } : {};
}

/** `managed='no'`: an unprivileged libvirt cannot make a tap, it opens the one that the node agent made. */
function nicElement(nic: NicDefinition): Element {
  return {
    "@type": "ethernet",
    mac: { "@address": nic.mac },
    target: { "@dev": nic.tapName, "@managed": "no" },
    model: { "@type": modelOf(nic.model, nic.pciAddress) },
    ...driverElement(nic),
    mtu: { "@size": String(nic.mtu) },
    ...(nic.linkUp ? {} : { link: { "@state": "down" } }),
    rom: { "@enabled": "no" },
    ...(nic.bootOrder === undefined ? {} : { boot: { "@order": String(nic.bootOrder) } }),
    ...(nic.acpiIndex === undefined ? {} : { acpi: { "@index": String(nic.acpiIndex) } }),
    alias: { "@name": nic.alias },
    address: addressElement(nic.pciAddress),
  };
}

function pciControllers(definition: DomainDefinition): readonly Element[] {
  const family = machineFamilyOf(definition.machine);
  const root = family === "pc" ? "pci-root" : "pcie-root";
  return [
    { "@type": "pci", "@index": "0", "@model": root },
    ...definition.ports.map((port) => ({
      "@type": "pci",
      "@index": String(port.index),
      "@model": "pcie-root-port",
      address: addressElement(port.address, port.multifunction),
    })),
  ];
}

function memoryBacking(definition: DomainDefinition): Element {
  const shared = { source: { "@type": "memfd" }, access: { "@mode": "shared" } };
  return definition.sharesMemory ? { memoryBacking: shared } : {};
}

function osElement({ machine, kernel }: DomainDefinition): Element {
  const type = { "@arch": "x86_64", "@machine": machine, "#text": "hvm" };
  if (kernel === undefined) return { type };
  return {
    type,
    kernel: kernel.path,
    ...(kernel.initrdPath === undefined ? {} : { initrd: kernel.initrdPath }),
    ...(kernel.args === undefined ? {} : { cmdline: kernel.args }),
  };
}

function agentElements({ agent }: DomainDefinition): {
  readonly controllers: readonly Element[];
  readonly channels: Element;
} {
  if (agent === undefined) return { controllers: [], channels: {} };
  const controller = {
    "@type": "virtio-serial",
    "@index": "0",
    "@model": modelOf("virtio", agent.pciAddress),
    address: addressElement(agent.pciAddress),
  };
  const channel = {
    "@type": "unix",
    source: { "@mode": "bind", "@path": agent.socketPath },
    target: { "@type": "virtio", "@name": AGENT_CHANNEL },
  };
  return { controllers: [controller], channels: { channel } };
}

function consoleElement({ console }: DomainDefinition): Element {
  if (console === undefined) return {};
  const serial = {
    "@type": "unix",
    source: { "@mode": "bind", "@path": console.socketPath },
    log: { "@file": console.logPath, "@append": "on" },
    target: { "@port": "0" },
  };
  return { serial };
}

function devicesElement(definition: DomainDefinition): Element {
  const { controllers, channels } = agentElements(definition);
  return {
    controller: [
      { "@type": "usb", "@index": "0", "@model": "none" },
      ...pciControllers(definition),
      ...controllers,
    ],
    interface: definition.nics.map(nicElement),
    ...consoleElement(definition),
    ...channels,
    memballoon: { "@model": "none" },
  };
}

/**
 * Code that QEMU has translated, MiB: without a bound it takes up to 1 GiB, more with each boot, until the launcher's
 * memory is used up and QEMU is killed (measured: after 2 to 4 resets of a guest of 128 MiB).
 */
const TRANSLATION_MIB = 96;

/** Bounds the cache of an emulated guest. Source: libvirt formatdomain, "Hypervisor features". */
function translation({ accelerator }: DomainDefinition): object {
  if (accelerator === "kvm") return {};
  return { tcg: { "tb-cache": { "@unit": "MiB", "#text": String(TRANSLATION_MIB) } } };
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
      os: osElement(definition),
      features: { acpi: "", apic: "", ...translation(definition) },
      ...(definition.accelerator === "kvm" ? { cpu: { "@mode": "host-passthrough" } } : {}),
      clock: { "@offset": "utc" },
      on_poweroff: "destroy",
      on_reboot: "restart",
      on_crash: "destroy",
      devices: devicesElement(definition),
    },
  });
}

/** XML for `virDomainAttachDeviceFlags`. Source: libvirt formatdomain, "Network interfaces". */
export function printNic(nic: NicDefinition): string {
  return builder.build({ interface: nicElement(nic) });
}
