// SPDX-License-Identifier: Apache-2.0
interface NicModel {
  /** Whether the driver needs I/O ports. Devices behind root ports have no I/O ports. */
  readonly needsIoPorts: boolean;
  readonly isMultiQueue: boolean;
  /** Returns the number of interrupt vectors that a Linux guest allocates for the NIC. */
  readonly vectors: (queues: number) => number;
}

/** Counts one vector per direction of each queue pair and one for configuration changes. Source: virtio 1.2 section 5.1.2. */
function countVirtioVectors(queues: number): number {
  return 2 * queues + 1;
}

const VIRTIO: NicModel = { needsIoPorts: false, isMultiQueue: true, vectors: countVirtioVectors };
/** NIC model that uses one interrupt: INTx or a single MSI vector. */
const SINGLE_VECTOR: NicModel = { needsIoPorts: false, isMultiQueue: false, vectors: () => 1 };

/**
 * NIC models by libvirt's name. Measured on QEMU 7.2 with Linux 6.1 behind 32 root ports: e1000, e1000e, rtl8139 and vmxnet3
 * work in all ports; ne2k_pci and pcnet work only in the last 14. Source: libvirt formatdomain, "Setting the NIC model".
 */
const NIC_MODELS: Readonly<Record<string, NicModel>> = {
  virtio: VIRTIO,
  "virtio-non-transitional": VIRTIO,
  "virtio-transitional": VIRTIO,
  e1000: SINGLE_VECTOR,
  /** The driver needs one vector each for receive, transmit and other events. Source: Linux drivers/net/ethernet/intel/e1000e/netdev.c */
  e1000e: { ...SINGLE_VECTOR, vectors: () => 3 },
  rtl8139: SINGLE_VECTOR,
  vmxnet3: { ...SINGLE_VECTOR, vectors: () => 2 },
  ne2k_pci: { ...SINGLE_VECTOR, needsIoPorts: true },
  pcnet: { ...SINGLE_VECTOR, needsIoPorts: true },
};

export function findNicModel(name: string): NicModel | undefined {
  // The name may come from a launcher. `hasOwn` rejects names such as `constructor`, which every object inherits.
  return Object.hasOwn(NIC_MODELS, name) ? NIC_MODELS[name] : undefined;
}

/**
 * Vectors per vCPU for root ports and devices. Measured on Linux 6.1 with 1 vCPU: 64 ports with 44 virtio NICs work (64 + 3 x
 * 44 vectors), as do 100 ports with 32 NICs. The driver of one more NIC fails to probe.
 */
const VECTORS_PER_VCPU = 196;

export interface InterruptUser {
  readonly model: string;
  readonly queues: number;
}

/** Returns the number of interrupt vectors that the NIC needs. Returns 1 for an unknown model. */
export function countVectors(nic: InterruptUser): number {
  return findNicModel(nic.model)?.vectors(nic.queues) ?? 1;
}

/** Kind of a device that is not a NIC. `other` is a virtio device of any other type. */
export type DeviceKind = "disk" | "scsi" | "usb" | "input" | "plain" | "other";

/**
 * Vectors per device. A disk or SCSI controller has one queue per vCPU by default. Source: virtio 1.2 sections
 * 4.1.5.1.2, 5.2.2, 5.6.2 and 5.8.2; QEMU hw/virtio/virtio-blk-pci.c; Linux drivers/usb/host/xhci-pci.c.
 */
const VECTORS_BY_KIND: Readonly<Record<DeviceKind, (vcpus: number) => number>> = {
  disk: (vcpus) => vcpus + 1,
  scsi: (vcpus) => vcpus + 3,
  usb: (vcpus) => vcpus + 1,
  input: () => 3,
  plain: () => 1,
  /** A virtio device needs at least one vector for configuration changes and one that all queues share. */
  other: () => 2,
};

interface InterruptUsers {
  readonly ports: number;
  readonly nics: readonly InterruptUser[];
  readonly devices: readonly DeviceKind[];
}

/** Returns the number of unused vectors. A negative number means that the devices need more vectors than exist. */
export function freeVectors(vcpus: number, { ports, nics, devices }: InterruptUsers): number {
  const fixed = devices.reduce((sum, kind) => sum + VECTORS_BY_KIND[kind](vcpus), ports);
  return vcpus * VECTORS_PER_VCPU - nics.reduce((sum, nic) => sum + countVectors(nic), fixed);
}
