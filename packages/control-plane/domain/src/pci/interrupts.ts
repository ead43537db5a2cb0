// SPDX-License-Identifier: Apache-2.0
// Interrupt vectors of a guest, and what NIC models and devices need.
interface NicModel {
  /** Whether the driver needs I/O ports, which hot-plug ports do not have. */
  readonly needsIoPorts: boolean;
  readonly isMultiQueue: boolean;
  /** Vectors that a Linux guest allocates for the NIC. */
  readonly vectors: (queues: number) => number;
}

/** One vector for each direction of each queue pair, and one for configuration changes. Source: virtio 1.2 section 5.1.2. */
function virtioVectors(queues: number): number {
  return 2 * queues + 1;
}

const VIRTIO: NicModel = { needsIoPorts: false, isMultiQueue: true, vectors: virtioVectors };
/** INTx, or one MSI. */
const SIMPLE: NicModel = { needsIoPorts: false, isMultiQueue: false, vectors: () => 1 };

/**
 * Models by libvirt's name. Measured on QEMU 7.2 with Linux 6.1 behind 32 root ports: e1000, e1000e, rtl8139 and
 * vmxnet3 work in all of them, ne2k_pci and pcnet in the last 14 only. Source: libvirt formatdomain, "Setting the NIC
 * model".
 */
const MODELS: Readonly<Record<string, NicModel>> = {
  virtio: VIRTIO,
  "virtio-non-transitional": VIRTIO,
  "virtio-transitional": VIRTIO,
  e1000: SIMPLE,
  /** Receive, transmit, other. Source: Linux drivers/net/ethernet/intel/e1000e/netdev.c */
  e1000e: { ...SIMPLE, vectors: () => 3 },
  rtl8139: SIMPLE,
  vmxnet3: { ...SIMPLE, vectors: () => 2 },
  ne2k_pci: { ...SIMPLE, needsIoPorts: true },
  pcnet: { ...SIMPLE, needsIoPorts: true },
};

export function findNicModel(name: string): NicModel | undefined {
  // A launcher may supply the name, and every object has a member `constructor`.
  return Object.hasOwn(MODELS, name) ? MODELS[name] : undefined;
}

/**
 * Vectors per vCPU for root ports and devices. Measured on Linux 6.1 with 1 vCPU: 64 ports and 44 virtio NICs (64 + 3
 * x 44) work, and so do 100 ports and 32 NICs; the probe of one more NIC fails. 2 vCPUs have slightly more than twice
 * as many.
 */
const VECTORS_PER_VCPU = 196;

export interface InterruptUser {
  readonly model: string;
  readonly queues: number;
}

/** Assumes one vector for unknown models. */
export function countVectors(nic: InterruptUser): number {
  return findNicModel(nic.model)?.vectors(nic.queues) ?? 1;
}

/** Devices other than NICs; `other` is an unspecified virtio device. */
export type DeviceKind = "disk" | "scsi" | "usb" | "input" | "plain" | "other";

/**
 * Vectors per device. Disks and SCSI controllers have a queue per vCPU by default. Source: virtio 1.2 sections
 * 4.1.5.1.2, 5.2.2, 5.6.2 and 5.8.2; QEMU hw/virtio/virtio-blk-pci.c; Linux drivers/usb/host/xhci-pci.c.
 */
const VECTORS: Readonly<Record<DeviceKind, (vcpus: number) => number>> = {
  disk: (vcpus) => vcpus + 1,
  scsi: (vcpus) => vcpus + 3,
  usb: (vcpus) => vcpus + 1,
  input: () => 3,
  /** INTx, or one MSI. */
  plain: () => 1,
  /** One for the configuration, and one shared by all queues: the minimum of virtio. */
  other: () => 2,
};

interface InterruptUsers {
  readonly ports: number;
  readonly nics: readonly InterruptUser[];
  readonly devices: readonly DeviceKind[];
}

/** Each port takes one vector. The result is negative if the vectors do not suffice. */
export function freeVectors(vcpus: number, { ports, nics, devices }: InterruptUsers): number {
  const fixed = devices.reduce((sum, kind) => sum + VECTORS[kind](vcpus), ports);
  return vcpus * VECTORS_PER_VCPU - nics.reduce((sum, nic) => sum + countVectors(nic), fixed);
}
