// SPDX-License-Identifier: Apache-2.0
// What each version of the layout has beside NICs and ports. A domain keeps the version of its first start, so an entry
// here is never changed: new rules are a new entry.

/** A device that a domain has from its first start, in the place that comes before those of NICs. */
export type FixedDevice = "guestAgent";

/** The rules of one version. */
interface Layout {
  /** In the order of their places. */
  readonly fixedDevices: readonly FixedDevice[];
  /** Whether the guest's memory can be shared with other processes (memfd), which cannot be changed while it runs. */
  readonly sharesMemory: boolean;
}

/** The version for domains that start for the first time. */
export const TOPOLOGY_VERSION = 2;

const NEWEST: Layout = { fixedDevices: ["guestAgent"], sharesMemory: true };

const LAYOUTS: Readonly<Record<number, Layout>> = {
  1: { fixedDevices: [], sharesMemory: true },
  [TOPOLOGY_VERSION]: NEWEST,
};

/** The rules of a version; of one that is not known, which a newer Patchbay gave, the newest that are. */
export function layoutOf(version: number): Layout {
  return LAYOUTS[version] ?? NEWEST;
}
