// SPDX-License-Identifier: Apache-2.0
// With which tap was each device last seen? One of the same name is another tap, which QEMU has not opened.
import type { IfaceFacts } from "../facts.ts";

/** Indices of taps, by iface. */
export type DeviceTaps = ReadonlyMap<string, number>;

/** What is remembered after a look, of what was before; a device that is gone opens a tap anew when it comes again. */
export function deviceTapsOf(ifaces: readonly IfaceFacts[], before: DeviceTaps): DeviceTaps {
  return new Map(
    ifaces.flatMap(({ name, device, links }): readonly (readonly [string, number])[] => {
      const index = links.tapOpen ? links.tapIndex : before.get(name);
      return device === undefined || index === undefined ? [] : [[name, index]];
    }),
  );
}
