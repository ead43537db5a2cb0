// SPDX-License-Identifier: Apache-2.0
// Disks and what they hang on. Source: libvirt formatdomain, "Hard drives, floppy disks, CDROMs" and "Controllers".
import type {
  BlockSizes,
  ControllerDefinition,
  DiskDefinition,
  DiskPlace,
  DiskSource,
} from "../../definition/disk.ts";
import { addressElement, given, virtioModel, type Element } from "./element.ts";

function sourceElement({ kind, path }: DiskSource): Element {
  return kind === "block" ? { "@dev": path } : { "@file": path };
}

function driverElement(disk: DiskDefinition): Element {
  const { source } = disk;
  return given({
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
  return given({
    "@logical_block_size": logical,
    "@physical_block_size": physical,
  });
}

function placeElement(place: DiskPlace): Element {
  if (place.kind === "pci") return addressElement(place.address);
  return {
    "@type": "drive",
    "@controller": String(place.controller),
    "@bus": "0",
    "@target": "0",
    "@unit": String(place.unit),
  };
}

/** One disk. */
export function diskElement(disk: DiskDefinition): Element {
  const model = disk.place.kind === "pci" ? { "@model": virtioModel(disk.place.address) } : {};
  return given({
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
    address: placeElement(disk.place),
  });
}

const MODELS = {
  scsi: ({ bus }) => (bus > 0 ? "virtio-non-transitional" : "virtio-scsi"),
  sata: () => undefined,
  usb: () => "qemu-xhci",
} as const satisfies Readonly<
  Record<ControllerDefinition["type"], (address: ControllerDefinition["pciAddress"]) => unknown>
>;

/** A controller that the definition names. */
export function controllerElement(controller: ControllerDefinition): Element {
  const { type, index, pciAddress, ioThread } = controller;
  return given({
    "@type": type,
    "@index": String(index),
    "@model": MODELS[type](pciAddress),
    driver: ioThread === undefined ? undefined : { "@iothread": String(ioThread) },
    address: addressElement(pciAddress),
  });
}
