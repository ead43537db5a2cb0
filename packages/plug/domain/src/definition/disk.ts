// SPDX-License-Identifier: Apache-2.0
// A disk of a domain, and the controllers that disks hang on.
import type { PciAddress } from "../pci/address.ts";

/** Where the bytes are, in the launcher. What the bytes say of themselves is never asked: the format is given. */
export interface DiskSource {
  readonly kind: "file" | "block";
  readonly path: string;
  readonly format: "raw" | "qcow2";
}

/** Where the guest finds it: a PCI device of its own, or a unit of the controller of its bus. */
export type DiskPlace =
  | { readonly kind: "pci"; readonly address: PciAddress }
  | { readonly kind: "drive"; readonly controller: number; readonly unit: number };

/** Sizes in bytes. */
export interface BlockSizes {
  readonly logical: number;
  readonly physical: number;
  readonly discardGranularity?: number;
}

/** A disk that the domain is defined with. */
export interface DiskDefinition {
  /** Begins with `ua-`, else libvirt drops it. */
  readonly alias: string;
  readonly source: DiskSource;
  readonly device: "disk" | "cdrom" | "lun";
  readonly bus: "virtio" | "scsi" | "sata";
  /** Name that libvirt orders disks by, unique in the domain: `vda` on virtio, `sda` on scsi and sata. */
  readonly target: string;
  readonly place: DiskPlace;
  readonly readOnly: boolean;
  readonly isTrayOpen?: boolean;
  /** Whether other machines may have it at the same time. */
  readonly isShareable?: boolean;
  readonly serial?: string;
  /** Absent: QEMU's own, which is writeback. */
  readonly cache?: "none" | "writethrough" | "writeback" | "directsync";
  /** Absent: QEMU's own, which is threads. */
  readonly io?: "native" | "threads";
  readonly discard?: "unmap" | "ignore";
  readonly errorPolicy?: "stop" | "ignore" | "report" | "enospace";
  readonly blockSize?: BlockSizes;
  /** Lower boots first, counted together with those of NICs; absent: not booted from. */
  readonly bootOrder?: number;
  /** Number of the thread that does its work, from 1; only on virtio. */
  readonly ioThread?: number;
  /** Queues, where it has more than one; only on virtio. */
  readonly queues?: number;
}

/** A controller that is not there by itself; each has a place on PCI. */
export interface ControllerDefinition {
  readonly type: "scsi" | "sata" | "usb";
  /** Counted for each type. */
  readonly index: number;
  readonly pciAddress: PciAddress;
  /** Number of the thread that does the work of its disks, from 1; only of type scsi. */
  readonly ioThread?: number;
}
