// SPDX-License-Identifier: Apache-2.0
// Which files and sockets does a domain name? Those of NICs are told with the NICs.
import { isJsonObject, type JsonObject } from "@patchbay/api/json";

/**
 * Elements that name no file of the guest's: libvirt finds the program and the images below an image by itself, and where it found them is
 * of one machine. Source: libvirt formatdomain "emulator", "backingStore".
 */
const OF_LIBVIRT: ReadonlySet<string> = new Set(["interface", "emulator", "backingStore"]);

function below(node: unknown): readonly string[] {
  if (typeof node === "string") return node.startsWith("/") ? [node] : [];
  if (Array.isArray(node)) return node.flatMap(below);
  if (!isJsonObject(node)) return [];
  return Object.entries(node).flatMap(([key, value]) => (OF_LIBVIRT.has(key) ? [] : below(value)));
}

/** What begins with a slash below `os` and `devices`, each once, in order of the alphabet. */
export function pathsIn(root: JsonObject): readonly string[] {
  return [...new Set([root["os"], root["devices"]].flatMap(below))].toSorted();
}
