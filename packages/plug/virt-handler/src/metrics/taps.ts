// SPDX-License-Identifier: Apache-2.0
// Which taps the NICs of each VM hang on, as they were seen last. Lost at a restart, until the next pass.
import { wiringOf, type NodeVmFacts } from "@patchbay/core";

/** By uid of the VMI: names of taps by names of ifaces. */
export type Taps = Map<string, ReadonlyMap<string, string>>;

/** The taps of the ifaces that have a device. */
export function noteTaps({ vmi, ifaces }: NodeVmFacts, taps: Taps): void {
  const withDevice = ifaces.filter(({ device }) => device !== undefined);
  const entries = withDevice.flatMap((iface) => {
    const wiring = wiringOf(iface);
    return wiring === undefined ? [] : [[iface.name, wiring.tapName] as const];
  });
  taps.set(vmi.metadata.uid ?? "", new Map(entries));
}
