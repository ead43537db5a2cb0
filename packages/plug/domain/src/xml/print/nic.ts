// SPDX-License-Identifier: Apache-2.0
// NICs. Source: libvirt formatdomain, "Network interfaces".
import type { NicDefinition } from "../../definition/nic.ts";
import { findNicModel } from "../../nic-model.ts";
import { addressElement, virtioModel, yesNo, type Element } from "./element.ts";

/** One pair is what a driver has anyway; a tap made for one refuses the attribute. */
function driverElement(nic: NicDefinition): Element {
  const several = nic.queues > 1 && findNicModel(nic.model)?.isMultiQueue === true;
  return several ? { driver: { "@name": "qemu", "@queues": String(nic.queues) } } : {};
}

/** `managed='no'`: an unprivileged libvirt cannot make a tap, it opens the one that virt-handler made. */
export function nicElement(nic: NicDefinition): Element {
  return {
    "@type": "ethernet",
    mac: { "@address": nic.mac },
    target: { "@dev": nic.tapName, "@managed": "no" },
    model: { "@type": nic.model === "virtio" ? virtioModel(nic.pciAddress) : nic.model },
    ...driverElement(nic),
    mtu: { "@size": String(nic.mtu) },
    ...(nic.linkUp ? {} : { link: { "@state": "down" } }),
    rom: { "@enabled": yesNo(nic.hasBootRom === true) },
    ...(nic.bootOrder === undefined ? {} : { boot: { "@order": String(nic.bootOrder) } }),
    ...(nic.acpiIndex === undefined ? {} : { acpi: { "@index": String(nic.acpiIndex) } }),
    alias: { "@name": nic.alias },
    address: addressElement(nic.pciAddress),
  };
}
