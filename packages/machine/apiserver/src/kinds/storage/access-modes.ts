// SPDX-License-Identifier: Apache-2.0
// How volumes may be used: words for people, and which there are. Source: Kubernetes core/v1 PersistentVolumeAccessMode.
import type { Cause } from "../../meta/status.ts";
import { forbiddenValue, requiredValue, unsupportedValue } from "../../meta/causes.ts";
import { listOf } from "../../objects/json.ts";

const MODES: Readonly<Record<string, string>> = {
  ReadWriteOnce: "RWO",
  ReadOnlyMany: "ROX",
  ReadWriteMany: "RWX",
  ReadWriteOncePod: "RWOP",
};
const ALONE = "ReadWriteOncePod";

/** For example `RWO,RWX`. */
export function modesText(modes: unknown): string {
  return listOf(modes)
    .map((mode) => MODES[String(mode)] ?? "")
    .join(",");
}

/** Why these are no access modes; `missing` is said where there are none. */
export function modeCauses(modes: unknown, missing = ""): Cause[] {
  const all = listOf(modes);
  const known = Object.keys(MODES);
  return [
    ...(all.length === 0 ? [requiredValue("spec.accessModes", missing)] : []),
    ...all
      .filter((mode) => !known.includes(String(mode)))
      .map((mode) => unsupportedValue("spec.accessModes", mode, known)),
    ...(all.includes(ALONE) && all.length > 1
      ? [forbiddenValue("spec.accessModes", `may not use ${ALONE} with other access modes`)]
      : []),
  ];
}
