// SPDX-License-Identifier: Apache-2.0
import type { PciAddress } from "../../pci/addresses.ts";

/** XML element. Keys with `@` are attributes, `#text` is text, and other keys are child elements. */
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

/** Only bus 0 has transitional devices, because most ports lack the I/O window for such devices. */
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
