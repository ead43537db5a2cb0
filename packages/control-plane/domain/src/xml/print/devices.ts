// SPDX-License-Identifier: Apache-2.0
// Prints the elements of devices. Source: libvirt formatdomain, "Devices".
import {
  type BlockSizes,
  type ControllerDefinition,
  type DiskDefinition,
  type DiskAddress,
  type DiskSource,
  type NicDefinition,
  type SocketSource,
  type TapSource,
  AGENT_CHANNEL,
  type InputDefinition,
  type DomainDefinition,
} from "../../definition.ts";
import { findMachineFamily } from "../../pci/addresses.ts";
import { addressElement, withoutUndefined, virtioModel, type Element, yesNo } from "./element.ts";
import { findNicModel } from "../../pci/interrupts.ts";

function sourceElement({ kind, path }: DiskSource): Element {
  return kind === "block" ? { "@dev": path } : { "@file": path };
}

function driverElement(disk: DiskDefinition): Element {
  const { source } = disk;
  return withoutUndefined({
    "@name": "qemu",
    "@type": source.format,
    "@cache": disk.cache,
    "@error_policy": disk.errorPolicy,
    "@io": disk.io,
    "@discard": disk.discard,
    "@iothread": disk.ioThread,
    "@queues": disk.queues,
  });
}

function targetElement({ target, bus, isTrayOpen }: DiskDefinition): Element {
  return { "@dev": target, "@bus": bus, ...(isTrayOpen === true ? { "@tray": "open" } : {}) };
}

function blockElement({ logical, physical }: BlockSizes): Element {
  return withoutUndefined({
    "@logical_block_size": logical,
    "@physical_block_size": physical,
  });
}

function diskAddressElement(place: DiskAddress): Element {
  if (place.kind === "pci") return addressElement(place.address);
  return {
    "@type": "drive",
    "@controller": String(place.controller),
    "@bus": "0",
    "@target": "0",
    "@unit": String(place.unit),
  };
}

export function diskElement(disk: DiskDefinition): Element {
  const model = disk.address.kind === "pci" ? { "@model": virtioModel(disk.address.address) } : {};
  return withoutUndefined({
    "@type": disk.source.kind,
    "@device": disk.device,
    ...model,
    driver: driverElement(disk),
    source: sourceElement(disk.source),
    target: targetElement(disk),
    blockio: disk.blockSize === undefined ? undefined : blockElement(disk.blockSize),
    readonly: disk.readOnly ? "" : undefined,
    shareable: disk.isShareable === true ? "" : undefined,
    serial: disk.serial,
    boot: disk.bootOrder === undefined ? undefined : { "@order": String(disk.bootOrder) },
    alias: { "@name": disk.alias },
    address: diskAddressElement(disk.address),
  });
}

const CONTROLLER_MODELS = {
  scsi: ({ bus }) => (bus > 0 ? "virtio-non-transitional" : "virtio-scsi"),
  sata: () => undefined,
  usb: () => "qemu-xhci",
} as const satisfies Readonly<
  Record<ControllerDefinition["type"], (address: ControllerDefinition["pciAddress"]) => unknown>
>;

export function controllerElement(controller: ControllerDefinition): Element {
  const { type, index, pciAddress, ioThread } = controller;
  return withoutUndefined({
    "@type": type,
    "@index": String(index),
    "@model": CONTROLLER_MODELS[type](pciAddress),
    driver: ioThread === undefined ? undefined : { "@iothread": String(ioThread) },
    address: addressElement(pciAddress),
  });
}

/**
 * Descriptors per ring of a vhost-user NIC. It is the maximum, because a polling dataplane is not notified of a full
 * ring. Source: QEMU hw/net/virtio-net.c VIRTIO_NET_RX_QUEUE_MAX_SIZE, VIRTIO_NET_TX_QUEUE_MAX_SIZE
 */
const RING_SIZE = "1024";

interface SourceElements {
  readonly type: string;
  readonly source: Element;
  readonly driver: Element;
}

function isMultiQueueNic({ queues, model }: NicDefinition): boolean {
  return queues > 1 && findNicModel(model)?.isMultiQueue === true;
}

/**
 * Builds the elements of a tap NIC. An unprivileged libvirt cannot create a tap, so virt-handler does (`managed='no'`).
 */
function tapElements(nic: NicDefinition & TapSource): SourceElements {
  return {
    type: "ethernet",
    source: { target: { "@dev": nic.tapName, "@managed": "no" } },
    // One queue pair is the default, and libvirt rejects the attribute for a tap with a single queue.
    driver: isMultiQueueNic(nic)
      ? { driver: { "@name": "qemu", "@queues": String(nic.queues) } }
      : {},
  };
}

/**
 * Builds the elements of a vhost-user NIC. `reconnect` is unset, because it would pause the guest while the dataplane
 * is away.
 */
function socketElements(nic: NicDefinition & SocketSource): SourceElements {
  const rings = { "@rx_queue_size": RING_SIZE, "@tx_queue_size": RING_SIZE };
  return {
    type: "vhostuser",
    source: { source: { "@type": "unix", "@path": nic.socketPath, "@mode": "client" } },
    driver: {
      driver: { ...(isMultiQueueNic(nic) && { "@queues": String(nic.queues) }), ...rings },
    },
  };
}

export function nicElement(nic: NicDefinition): Element {
  const { type, source, driver } = "tapName" in nic ? tapElements(nic) : socketElements(nic);
  return {
    "@type": type,
    mac: { "@address": nic.mac },
    ...source,
    model: { "@type": nic.model === "virtio" ? virtioModel(nic.pciAddress) : nic.model },
    ...driver,
    ...(nic.mtu > 0 && { mtu: { "@size": String(nic.mtu) } }),
    ...(nic.linkUp ? {} : { link: { "@state": "down" } }),
    rom: { "@enabled": yesNo(nic.hasBootRom === true) },
    ...(nic.bootOrder === undefined ? {} : { boot: { "@order": String(nic.bootOrder) } }),
    ...(nic.acpiIndex === undefined ? {} : { acpi: { "@index": String(nic.acpiIndex) } }),
    alias: { "@name": nic.alias },
    address: addressElement(nic.pciAddress),
  };
}

export function pciControllers(definition: DomainDefinition): readonly Element[] {
  const family = findMachineFamily(definition.machine);
  const root = family === "pc" ? "pci-root" : "pcie-root";
  return [
    { "@type": "pci", "@index": "0", "@model": root },
    ...definition.ports.map((port) => ({
      "@type": "pci",
      "@index": String(port.index),
      "@model": "pcie-root-port",
      address: addressElement(port.address, port.multifunction),
    })),
    ...definition.bridges.map(({ index, address }) => ({
      "@type": "pci",
      "@index": String(index),
      "@model": "pcie-to-pci-bridge",
      address: addressElement(address),
    })),
  ];
}

export function agentControllers({ agent }: DomainDefinition): readonly Element[] {
  if (agent === undefined) return [];
  const controller = {
    "@type": "virtio-serial",
    "@index": "0",
    "@model": virtioModel(agent.pciAddress),
    address: addressElement(agent.pciAddress),
  };
  return [controller];
}

export function agentElements({ agent }: DomainDefinition): Element {
  if (agent === undefined) return {};
  const channel = {
    "@type": "unix",
    source: { "@mode": "bind", "@path": agent.socketPath },
    target: { "@type": "virtio", "@name": AGENT_CHANNEL },
  };
  return { channel };
}

export function consoleElements({ console }: DomainDefinition): Element {
  if (console === undefined) return {};
  const serial = {
    "@type": "unix",
    source: { "@mode": "bind", "@path": console.socketPath },
    log: { "@file": console.logPath, "@append": "on" },
    target: { "@port": "0" },
  };
  return { serial };
}

function displayElements({ display }: DomainDefinition): Element {
  if (display === undefined) return {};
  const { socketPath, model, memoryKiB, pciAddress } = display;
  return {
    graphics: { "@type": "vnc", "@socket": socketPath },
    video: {
      model: withoutUndefined({ "@type": model, "@heads": "1", "@vram": memoryKiB }),
      address: addressElement(pciAddress),
    },
  };
}

/** Builds the random number generator, which reads the launcher's /dev/urandom because that never blocks. */
function rngElements({ rng }: DomainDefinition): Element {
  if (rng === undefined) return {};
  const { pciAddress } = rng;
  const element = {
    "@model": virtioModel(pciAddress),
    backend: { "@model": "random", "#text": "/dev/urandom" },
    address: addressElement(pciAddress),
  };
  return { rng: element };
}

function watchdogElements({ watchdog }: DomainDefinition): Element {
  if (watchdog === undefined) return {};
  const { alias, action, pciAddress } = watchdog;
  const element = {
    "@model": "i6300esb",
    "@action": action,
    alias: { "@name": alias },
    address: addressElement(pciAddress),
  };
  return { watchdog: element };
}

function tpmElements({ tpm }: DomainDefinition): Element {
  if (tpm === undefined) return {};
  const backend = {
    "@type": "emulator",
    "@version": "2.0",
    "@persistent_state": yesNo(tpm.isPersistent),
  };
  return { tpm: { "@model": tpm.model, backend } };
}

function inputElement(input: InputDefinition): Element {
  const alias = { "@name": input.alias };
  if (input.bus === "usb") {
    const address = { "@type": "usb", "@bus": "0", "@port": String(input.port) };
    return { "@type": input.type, "@bus": "usb", alias, address };
  }
  // Input devices have no transitional model, so the attribute is unset.
  return {
    "@type": input.type,
    "@bus": "virtio",
    alias,
    address: addressElement(input.pciAddress),
  };
}

export function optionalDevices(definition: DomainDefinition): Element {
  return {
    ...displayElements(definition),
    input: definition.inputs.map(inputElement),
    ...rngElements(definition),
    ...watchdogElements(definition),
    ...tpmElements(definition),
  };
}
