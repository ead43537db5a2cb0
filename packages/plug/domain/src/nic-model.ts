// SPDX-License-Identifier: Apache-2.0
// What the models of NICs need of the machine: I/O ports, interrupt vectors, queues.

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
