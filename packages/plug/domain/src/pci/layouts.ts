// SPDX-License-Identifier: Apache-2.0
// What each version of the layout has by itself. A domain keeps the version of its first start, so an entry here is
// never changed: new rules are a new entry.

/** Devices that are defined once and then stay; what follows a colon says which of them. */
export type FixedDevice =
  | "guestAgent"
  | "display"
  | "usb"
  | "scsi"
  | `sata:${string}`
  | "rng"
  | "watchdog"
  | `disk:${string}`
  | `input:${string}`;

/** The rules of one version. */
interface Layout {
  /** What every domain has, in the first places. */
  readonly always: readonly FixedDevice[];
  /** Whether the guest's memory can be shared with other processes (memfd), which cannot be changed while it runs. */
  readonly sharesMemory: boolean;
  /**
   * Whether what a VM says nothing of is as KubeVirt has it: a display, the host's processor model, the topology of the
   * processors told, boot ROMs on NICs that are booted from. Guests of older versions keep the machine that they know.
   */
  readonly hasKubeVirtDefaults: boolean;
}

/** The version for domains that start for the first time. */
export const TOPOLOGY_VERSION = 3;

const NEWEST: Layout = { always: ["guestAgent"], sharesMemory: true, hasKubeVirtDefaults: true };

const LAYOUTS: Readonly<Record<number, Layout>> = {
  1: { always: [], sharesMemory: true, hasKubeVirtDefaults: false },
  2: { always: ["guestAgent"], sharesMemory: true, hasKubeVirtDefaults: false },
  [TOPOLOGY_VERSION]: NEWEST,
};

/** The rules of a version; of one that is not known, which a newer Patchbay gave, the newest that are. */
export function layoutOf(version: number): Layout {
  return LAYOUTS[version] ?? NEWEST;
}
