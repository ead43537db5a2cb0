// SPDX-License-Identifier: Apache-2.0
// NICs. Source: libvirt formatdomain, "Network interfaces".
import type { NicDefinition, SocketSource, TapSource } from "../../definition/nic.ts";
import { findNicModel } from "../../nic-model.ts";
import { addressElement, virtioModel, yesNo, type Element } from "./element.ts";

/**
 * Descriptors in each ring of a NIC that speaks vhost-user: the most that there can be, since a process that polls is not
 * told of a ring that is full. Source: QEMU hw/net/virtio-net.c VIRTIO_NET_RX_QUEUE_MAX_SIZE, VIRTIO_NET_TX_QUEUE_MAX_SIZE
 */
const RING_SIZE = "1024";

/** What depends on how frames leave QEMU. */
interface SourceElements {
  readonly type: string;
  readonly source: Element;
  readonly driver: Element;
}

function hasSeveral({ queues, model }: NicDefinition): boolean {
  return queues > 1 && findNicModel(model)?.isMultiQueue === true;
}

/** `managed='no'`: an unprivileged libvirt cannot make a tap, it opens the one that virt-handler made. */
function tapElements(nic: NicDefinition & TapSource): SourceElements {
  return {
    type: "ethernet",
    source: { target: { "@dev": nic.tapName, "@managed": "no" } },
    // One pair is what a driver has anyway; a tap made for one refuses the attribute.
    driver: hasSeveral(nic) ? { driver: { "@name": "qemu", "@queues": String(nic.queues) } } : {},
  };
}

/** No `reconnect`: QEMU would wait for a process that is away, and its guest would stand still meanwhile. */
function socketElements(nic: NicDefinition & SocketSource): SourceElements {
  const rings = { "@rx_queue_size": RING_SIZE, "@tx_queue_size": RING_SIZE };
  return {
    type: "vhostuser",
    source: { source: { "@type": "unix", "@path": nic.socketPath, "@mode": "client" } },
    driver: { driver: { ...(hasSeveral(nic) && { "@queues": String(nic.queues) }), ...rings } },
  };
}

/** The NIC as an element `interface`. */
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
