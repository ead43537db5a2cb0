// SPDX-License-Identifier: Apache-2.0
// Codec of the annotation that tells a VMI where its devices were at the last start.
import type { PcieTopology } from "../kinds/vm.ts";
import { isJsonObject, parseJson } from "../values/json.ts";

type Entry = PcieTopology["interfaces"][number];

function isEntry(value: unknown): value is Entry {
  return (
    isJsonObject(value) &&
    typeof value["name"] === "string" &&
    typeof value["pciAddress"] === "string"
  );
}

/** Reads the annotation; undefined when it is absent or cannot be read: the devices are then laid out anew. */
export function parsePcieTopology(text: string | undefined): PcieTopology | undefined {
  const value = parseJson(text);
  if (!isJsonObject(value)) return undefined;
  const { version, interfaces, devices } = value;
  if (typeof version !== "number" || !Array.isArray(interfaces)) return undefined;
  if (!interfaces.every(isEntry)) return undefined;
  // One that was written before devices were remembered has none.
  const isKept = Array.isArray(devices) && devices.every(isEntry);
  return { version, interfaces, ...(isKept ? { devices } : {}) };
}

/** Writes the annotation; the order of the interfaces is kept. */
export function printPcieTopology(topology: PcieTopology): string {
  return JSON.stringify(topology);
}
