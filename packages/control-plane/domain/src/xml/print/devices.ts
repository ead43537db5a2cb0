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
import {
  buildAddressElement,
  omitUndefinedMembers,
  chooseVirtioModel,
  type Element,
  toYesNo,
} from "./element.ts";
import { findNicModel } from "../../pci/interrupts.ts";

function buildSourceElement({ kind, path }: DiskSource): Element {
  return kind === "block" ? { "@dev": path } : { "@file": path };
}

function buildDriverElement(disk: DiskDefinition): Element {
  const { source } = disk;
  return omitUndefinedMembers({
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

function buildTargetElement({ target, bus, isTrayOpen }: DiskDefinition): Element {
  return { "@dev": target, "@bus": bus, ...(isTrayOpen === true ? { "@tray": "open" } : {}) };
}

function buildBlockElement({ logical, physical }: BlockSizes): Element {
  return omitUndefinedMembers({
    "@logical_block_size": logical,
    "@physical_block_size": physical,
  });
}

function buildDiskAddressElement(place: DiskAddress): Element {
  if (place.kind === "pci") return buildAddressElement(place.address);
  return {
    "@type": "drive",
    "@controller": String(place.controller),
    "@bus": "0",
    "@target": "0",
    "@unit": String(place.unit),
  };
}

export function buildDiskElement(disk: DiskDefinition): Element {
  const model =
    disk.address.kind === "pci" ? { "@model": chooseVirtioModel(disk.address.address) } : {};
  return omitUndefinedMembers({
    "@type": disk.source.kind,
    "@device": disk.device,
    ...model,
    driver: buildDriverElement(disk),
    source: buildSourceElement(disk.source),
    target: buildTargetElement(disk),
    blockio: disk.blockSize === undefined ? undefined : buildBlockElement(disk.blockSize),
    readonly: disk.readOnly ? "" : undefined,
    shareable: disk.isShareable === true ? "" : undefined,
    serial: disk.serial,
    boot: disk.bootOrder === undefined ? undefined : { "@order": String(disk.bootOrder) },
    alias: { "@name": disk.alias },
    address: buildDiskAddressElement(disk.address),
  });
}

const CONTROLLER_MODELS = {
  scsi: ({ bus }) => (bus > 0 ? "virtio-non-transitional" : "virtio-scsi"),
  sata: () => undefined,
  usb: () => "qemu-xhci",
} as const satisfies Readonly<
  Record<ControllerDefinition["type"], (address: ControllerDefinition["pciAddress"]) => unknown>
>;

export function buildControllerElement(controller: ControllerDefinition): Element {
  const { type, index, pciAddress, ioThread } = controller;
  return omitUndefinedMembers({
    "@type": type,
    "@index": String(index),
    "@model": CONTROLLER_MODELS[type](pciAddress),
    driver: ioThread === undefined ? undefined : { "@iothread": String(ioThread) },
    address: buildAddressElement(pciAddress),
  });
}

/** Descriptors per ring of a vhost-user NIC: QEMU's maximum. Source: QEMU hw/net/virtio-net.c VIRTIO_NET_RX_QUEUE_MAX_SIZE. */
const RING_SIZE = "1024";

interface SourceElements {
  readonly type: string;
  readonly source: Element;
  readonly driver: Element;
}

function isMultiQueueNic({ queues, model }: NicDefinition): boolean {
  return queues > 1 && findNicModel(model)?.isMultiQueue === true;
}

/** Builds the elements of a tap NIC. virt-handler creates the tap (`managed='no'`), because an unprivileged libvirt cannot. */
function buildTapElements(nic: NicDefinition & TapSource): SourceElements {
  return {
    type: "ethernet",
    source: { target: { "@dev": nic.tapName, "@managed": "no" } },
    // libvirt rejects the attribute `queues` for a tap with a single queue.
    driver: isMultiQueueNic(nic)
      ? { driver: { "@name": "qemu", "@queues": String(nic.queues) } }
      : {},
  };
}

/** Builds the elements of a vhost-user NIC without `reconnect`, which would pause the guest whenever the dataplane is not running. */
function buildSocketElements(nic: NicDefinition & SocketSource): SourceElements {
  const rings = { "@rx_queue_size": RING_SIZE, "@tx_queue_size": RING_SIZE };
  return {
    type: "vhostuser",
    source: { source: { "@type": "unix", "@path": nic.socketPath, "@mode": "client" } },
    driver: {
      driver: { ...(isMultiQueueNic(nic) && { "@queues": String(nic.queues) }), ...rings },
    },
  };
}

export function buildNicElement(nic: NicDefinition): Element {
  const { type, source, driver } =
    "tapName" in nic ? buildTapElements(nic) : buildSocketElements(nic);
  return {
    "@type": type,
    mac: { "@address": nic.mac },
    ...source,
    model: { "@type": nic.model === "virtio" ? chooseVirtioModel(nic.pciAddress) : nic.model },
    ...driver,
    ...(nic.mtu > 0 && { mtu: { "@size": String(nic.mtu) } }),
    ...(nic.linkUp ? {} : { link: { "@state": "down" } }),
    rom: { "@enabled": toYesNo(nic.hasBootRom === true) },
    ...(nic.bootOrder === undefined ? {} : { boot: { "@order": String(nic.bootOrder) } }),
    ...(nic.acpiIndex === undefined ? {} : { acpi: { "@index": String(nic.acpiIndex) } }),
    alias: { "@name": nic.alias },
    address: buildAddressElement(nic.pciAddress),
  };
}

export function buildPciControllers(definition: DomainDefinition): readonly Element[] {
  const family = findMachineFamily(definition.machine);
  const root = family === "pc" ? "pci-root" : "pcie-root";
  return [
    { "@type": "pci", "@index": "0", "@model": root },
    ...definition.ports.map((port) => ({
      "@type": "pci",
      "@index": String(port.index),
      "@model": "pcie-root-port",
      address: buildAddressElement(port.address, port.multifunction),
    })),
    ...definition.bridges.map(({ index, address }) => ({
      "@type": "pci",
      "@index": String(index),
      "@model": "pcie-to-pci-bridge",
      address: buildAddressElement(address),
    })),
  ];
}

export function buildAgentControllers({ agent }: DomainDefinition): readonly Element[] {
  if (agent === undefined) return [];
  const controller = {
    "@type": "virtio-serial",
    "@index": "0",
    "@model": chooseVirtioModel(agent.pciAddress),
    address: buildAddressElement(agent.pciAddress),
  };
  return [controller];
}

export function buildAgentElements({ agent }: DomainDefinition): Element {
  if (agent === undefined) return {};
  const channel = {
    "@type": "unix",
    source: { "@mode": "bind", "@path": agent.socketPath },
    target: { "@type": "virtio", "@name": AGENT_CHANNEL },
  };
  return { channel };
}

export function buildConsoleElements({ console }: DomainDefinition): Element {
  if (console === undefined) return {};
  const serial = {
    "@type": "unix",
    source: { "@mode": "bind", "@path": console.socketPath },
    log: { "@file": console.logPath, "@append": "on" },
    target: { "@port": "0" },
  };
  return { serial };
}

function buildDisplayElements({ display }: DomainDefinition): Element {
  if (display === undefined) return {};
  const { socketPath, model, memoryKiB, pciAddress } = display;
  return {
    graphics: { "@type": "vnc", "@socket": socketPath },
    video: {
      model: omitUndefinedMembers({ "@type": model, "@heads": "1", "@vram": memoryKiB }),
      address: buildAddressElement(pciAddress),
    },
  };
}

/** Builds the random number generator. Its source is the launcher's /dev/urandom, which never blocks. */
function buildRngElements({ rng }: DomainDefinition): Element {
  if (rng === undefined) return {};
  const { pciAddress } = rng;
  const element = {
    "@model": chooseVirtioModel(pciAddress),
    backend: { "@model": "random", "#text": "/dev/urandom" },
    address: buildAddressElement(pciAddress),
  };
  return { rng: element };
}

function buildWatchdogElements({ watchdog }: DomainDefinition): Element {
  if (watchdog === undefined) return {};
  const { alias, action, pciAddress } = watchdog;
  const element = {
    "@model": "i6300esb",
    "@action": action,
    alias: { "@name": alias },
    address: buildAddressElement(pciAddress),
  };
  return { watchdog: element };
}

function buildTpmElements({ tpm }: DomainDefinition): Element {
  if (tpm === undefined) return {};
  const backend = {
    "@type": "emulator",
    "@version": "2.0",
    "@persistent_state": toYesNo(tpm.isPersistent),
  };
  return { tpm: { "@model": tpm.model, backend } };
}

function buildInputElement(input: InputDefinition): Element {
  const alias = { "@name": input.alias };
  if (input.bus === "usb") {
    const address = { "@type": "usb", "@bus": "0", "@port": String(input.port) };
    return { "@type": input.type, "@bus": "usb", alias, address };
  }
  // libvirt has no transitional model for input devices, so the attribute `model` is unset.
  return {
    "@type": input.type,
    "@bus": "virtio",
    alias,
    address: buildAddressElement(input.pciAddress),
  };
}

export function buildOptionalDevices(definition: DomainDefinition): Element {
  return {
    ...buildDisplayElements(definition),
    input: definition.inputs.map(buildInputElement),
    ...buildRngElements(definition),
    ...buildWatchdogElements(definition),
    ...buildTpmElements(definition),
  };
}
