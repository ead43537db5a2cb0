// SPDX-License-Identifier: Apache-2.0
// Codec of the annotation that tells a VMI where its devices were at the last start.
import type { PcieTopology } from "../kinds/vm.ts";

type Entry = PcieTopology["interfaces"][number];

function isEntry(value: unknown): value is Entry {
  if (typeof value !== "object" || value === null) return false;
  // Members are only looked at.
  const { name, pciAddress } = value as Partial<Record<keyof Entry, unknown>>;
  return typeof name === "string" && typeof pciAddress === "string";
}

/** Reads the annotation; undefined when it is absent or cannot be read: the devices are then laid out anew. */
export function parsePcieTopology(text: string | undefined): PcieTopology | undefined {
  if (text === undefined) return undefined;
  try {
    // Members are checked below.
    const { version, interfaces } = JSON.parse(text) as Partial<
      Record<keyof PcieTopology, unknown>
    >;
    if (typeof version !== "number" || !Array.isArray(interfaces)) return undefined;
    return interfaces.every(isEntry) ? { version, interfaces } : undefined;
  } catch {
    return undefined;
  }
}

/** Prints the annotation. */
export function printPcieTopology(topology: PcieTopology): string {
  return JSON.stringify(topology);
}
