// SPDX-License-Identifier: Apache-2.0
// How many interrupt vectors a guest has, and what takes them.
/** One model. */
interface NicModel {
  /** Whether its driver does not work without I/O ports, which the ports for hot-plug do not have. */
  readonly needsIoPorts: boolean;
  /** Whether it has more than one pair of queues. */
  readonly isMultiQueue: boolean;
  /** Interrupt vectors that a Linux guest takes for a NIC with `queues` pairs of queues. */
  readonly vectors: (queues: number) => number;
}

/** One vector for each direction of each pair, and one for changes of the configuration. Source: virtio 1.2 section 5.1.2. */
function virtioVectors(queues: number): number {
  return 2 * queues + 1;
}

const VIRTIO: NicModel = { needsIoPorts: false, isMultiQueue: true, vectors: virtioVectors };
/** INTx, or a message of its own. */
const SIMPLE: NicModel = { needsIoPorts: false, isMultiQueue: false, vectors: () => 1 };

/**
 * Models by libvirt's name. Measured on QEMU 7.2 with Linux 6.1 behind 32 root ports: e1000, e1000e, rtl8139 and vmxnet3
 * work in each of them, ne2k_pci and pcnet in the last 14 only. Source: libvirt formatdomain, "Setting the NIC model".
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

/** What a model needs; undefined for one that Patchbay does not know. */
export function findNicModel(name: string): NicModel | undefined {
  // The name may come from a launcher: `constructor` is a member of every object.
  return Object.hasOwn(MODELS, name) ? MODELS[name] : undefined;
}

/**
 * Vectors that a vCPU has for root ports and devices. Measured on Linux 6.1 with 1 vCPU: 64 ports and 44 virtio NICs
 * (64 + 3 x 44) and 100 ports and 32 NICs work, one NIC more is probed in vain; 2 vCPUs have a little over twice as many.
 */
const VECTORS_PER_VCPU = 196;

/** What of a NIC says how many interrupt vectors it takes. */
export interface InterruptUser {
  readonly model: string;
  /** Pairs of queues. */
  readonly queues: number;
}

/** Vectors of one NIC; one of an unknown model counts as one with a single message. */
export function vectorsOf(nic: InterruptUser): number {
  return findNicModel(nic.model)?.vectors(nic.queues) ?? 1;
}

/** What is no NIC and takes vectors; `other` is a virtio device that nothing more is known of. */
export type DeviceKind = "disk" | "scsi" | "usb" | "input" | "plain" | "other";

/**
 * Vectors of one device. A disk and a SCSI controller have a queue for each vCPU where nothing else is said.
 * Source: virtio 1.2 sections 4.1.5.1.2, 5.2.2, 5.6.2 and 5.8.2; QEMU hw/virtio/virtio-blk-pci.c; Linux drivers/usb/host/xhci-pci.c.
 */
const VECTORS: Readonly<Record<DeviceKind, (vcpus: number) => number>> = {
  disk: (vcpus) => vcpus + 1,
  scsi: (vcpus) => vcpus + 3,
  usb: (vcpus) => vcpus + 1,
  input: () => 3,
  /** On INTx, or one message. */
  plain: () => 1,
  /** One for the configuration, one for all queues: what virtio makes do with. */
  other: () => 2,
};

/** What takes interrupt vectors. */
interface InterruptUsers {
  readonly ports: number;
  readonly nics: readonly InterruptUser[];
  readonly devices: readonly DeviceKind[];
}

/** Vectors that are left, each port having taken one; negative when they do not suffice. */
export function freeVectors(vcpus: number, { ports, nics, devices }: InterruptUsers): number {
  const fixed = devices.reduce((sum, kind) => sum + VECTORS[kind](vcpus), ports);
  return vcpus * VECTORS_PER_VCPU - nics.reduce((sum, nic) => sum + vectorsOf(nic), fixed);
}
