// SPDX-License-Identifier: Apache-2.0
import type { PciAddress } from "../../pci/addresses.ts";

/** Element for the XML builder. A key with `@` is an attribute, `#text` is text, and any other key is a child element. */
export type Element = Readonly<Record<string, unknown>>;

/** Builds a PCI address. Source: libvirt formatdomain, "Device addresses". */
export function buildAddressElement(address: PciAddress, multifunction = false): Element {
  return {
    "@type": "pci",
    "@domain": "0x0000",
    "@bus": `0x${address.bus.toString(16).padStart(2, "0")}`,
    "@slot": `0x${address.slot.toString(16).padStart(2, "0")}`,
    "@function": `0x${address.function.toString(16)}`,
    ...(multifunction ? { "@multifunction": "on" } : {}),
  };
}

/** Returns the virtio model for an address. Only bus 0 gets transitional devices, which need an I/O window that most ports lack. */
export function chooseVirtioModel(address: PciAddress): string {
  return address.bus > 0 ? "virtio-non-transitional" : "virtio";
}

export function toYesNo(value: boolean): "yes" | "no" {
  return value ? "yes" : "no";
}

export function toOnOff(value: boolean): "on" | "off" {
  return value ? "on" : "off";
}

export function omitUndefinedMembers(members: Element): Element {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined));
}
