// SPDX-License-Identifier: Apache-2.0
// Finds the edits of a network's definition since a NIC was attached.
import { isJsonObject } from "@patchbay/api/json";
import { isEqual } from "@patchbay/base";
import type { NetworkConfigList } from "../../interfaces/cni.ts";

/** Members that the request for an attachment adds to a plugin's configuration. Source: CNI CONVENTIONS; device plugins of SR-IOV. */
const REQUEST_MEMBERS: readonly string[] = ["args", "runtimeConfig", "deviceID", "pciBusID"];

function listDifferences(before: unknown, now: unknown, path: string): readonly string[] {
  if (isEqual(before, now)) return [];
  if (Array.isArray(before) && Array.isArray(now) && before.length === now.length)
    return now.flatMap((each, at) => listDifferences(before[at], each, `${path}[${String(at)}]`));
  if (!isJsonObject(before) || !isJsonObject(now)) return [path];
  const members = [...new Set([...Object.keys(before), ...Object.keys(now)])].filter(
    (member) => !REQUEST_MEMBERS.includes(member),
  );
  return members.flatMap((member) =>
    listDifferences(before[member], now[member], `${path}.${member}`),
  );
}

/** Lists the paths at which the plugins' configurations differ, for example `plugins[0].bridge`. Ignores {@link REQUEST_MEMBERS}. */
export function listDefinitionChanges(
  attached: NetworkConfigList,
  current: NetworkConfigList,
): readonly string[] {
  return listDifferences(attached.plugins, current.plugins, "plugins");
}
