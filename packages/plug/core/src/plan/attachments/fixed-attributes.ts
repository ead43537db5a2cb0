// SPDX-License-Identifier: Apache-2.0
// Which attributes of an attachment's element are others than those that it was attached with? A plugin is told of them at
// ADD only. Source: NPWG 1.3 section 4.1.2.1.
import { normalizeMac, type NetworkSelection } from "@patchbay/api";
import { isEqual } from "../../equal.ts";

/** What plugins are asked for beside the MAC, by the names of the annotation. */
const FIELDS = [
  "ips",
  "ipam-claim-reference",
  "cni-args",
  "portMappings",
  "bandwidth",
  "infiniband-guid",
  "default-route",
  "deviceID",
] as const satisfies readonly (keyof NetworkSelection)[];

/** What asks for nothing is as good as absent. */
function askedBy(value: unknown): unknown {
  const isEmpty = value === null || value === "" || isEqual(value, []) || isEqual(value, {});
  return isEmpty ? undefined : value;
}

/** A MAC that is no longer asked for is as good as any. */
function isOtherMac(before: NetworkSelection, now: NetworkSelection): boolean {
  const asked = normalizeMac(now.mac ?? "");
  return asked !== "" && asked !== normalizeMac(before.mac ?? "");
}

/** Names of the attributes, in the order of the standard. */
export function changedAttributes(
  before: NetworkSelection,
  now: NetworkSelection,
): readonly string[] {
  const others = FIELDS.filter((field) => !isEqual(askedBy(before[field]), askedBy(now[field])));
  return [...(isOtherMac(before, now) ? ["mac"] : []), ...others];
}
