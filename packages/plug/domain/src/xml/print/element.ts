// SPDX-License-Identifier: Apache-2.0
// How elements are written down that become XML.
import type { PciAddress } from "../../pci/addresses.ts";

/** An element: `@` before attributes, `#text` for text, all else below it. */
export type Element = Readonly<Record<string, unknown>>;

/** Where a device is on PCI. Source: libvirt formatdomain, "Device addresses". */
export function addressElement(address: PciAddress, multifunction = false): Element {
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
export function virtioModel(address: PciAddress): string {
  return address.bus > 0 ? "virtio-non-transitional" : "virtio";
}

/** As libvirt has flags of elements. */
export function yesNo(value: boolean): "yes" | "no" {
  return value ? "yes" : "no";
}

/** As libvirt has flags of features. */
export function onOff(value: boolean): "on" | "off" {
  return value ? "on" : "off";
}

/** The members whose value is given. */
export function given(members: Element): Element {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined));
}
