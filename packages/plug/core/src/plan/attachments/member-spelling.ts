// SPDX-License-Identifier: Apache-2.0
// Does every plugin read the members of a configuration as we do? Go takes the name of a member whatever its case, and the
// last one of two counts. Source: Go encoding/json, Unmarshal and foldName.
import { isJsonObject } from "@patchbay/api";

/** The same for names that Go takes for one, those with U+017F and U+212A too. */
export function foldMember(name: string): string {
  return name.toUpperCase().toLowerCase();
}

/** Members of plugins' configurations that are read or written here. */
const READ_HERE: ReadonlyMap<string, string> = new Map(
  [
    "type",
    "name",
    "cniVersion",
    "ipam",
    "dataDir",
    "args",
    "cni",
    "master",
    "bridge",
    "capabilities",
    "runtimeConfig",
    "prevResult",
    "delegate",
    "delegates",
    "plugins",
    "deviceID",
    "pciBusID",
    "linksInContainer",
  ].map((name) => [foldMember(name), name]),
);

/** Members of an object that plugins take for another one; `field`: where it is, empty for the plugin itself. */
export function spellingProblems(field: string, value: unknown): readonly string[] {
  if (!isJsonObject(value)) return [];
  const seen = new Map<string, string>();
  return Object.keys(value).flatMap((name) => {
    const folded = foldMember(name);
    const meant = READ_HERE.get(folded) ?? seen.get(folded) ?? name;
    seen.set(folded, meant);
    if (meant === name) return [];
    return [`${field === "" ? "" : `${field}.`}${name}, which plugins take for ${meant}`];
  });
}
