// SPDX-License-Identifier: Apache-2.0
// Whether containers see storage as files or as a device. Source: Kubernetes core/v1 PersistentVolumeMode.
import type { Cause } from "../../meta/status.ts";
import { unsupportedValue } from "../../meta/causes.ts";
import { type Fields, textAt } from "../../objects/json.ts";

const MODES: readonly string[] = ["Block", "Filesystem"];

/** Why it is no mode. */
export function volumeModeCauses(spec: Fields): Cause[] {
  const mode = textAt(spec, "volumeMode");
  return MODES.includes(mode) ? [] : [unsupportedValue("spec.volumeMode", mode, MODES)];
}
