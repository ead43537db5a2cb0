// SPDX-License-Identifier: Apache-2.0
// Decisions of `patchbay up`. Pure.
import { omitUndefined } from "@patchbay/base";
import { parseFields, readText } from "./data-dir/json.ts";
import type { WantedSettings } from "./settings/settings.ts";
import type { SupervisorPhase } from "./supervisor/state.ts";

/** `follow` waits for a supervisor that is starting, `replace` for the end of a supervisor that is stopping. */
export type UpPlan = "report" | "follow" | "replace" | "start";

/** Decides what `patchbay up` does. `phase` is undefined if no supervisor runs. */
export function planUp(phase: SupervisorPhase | undefined): UpPlan {
  if (phase === undefined) return "start";
  if (phase === "ready") return "report";
  return phase === "starting" ? "follow" : "replace";
}

export function selectSettings(options: WantedSettings): WantedSettings {
  const { apiPort, apiAddress, nodeName, podSubnet, serviceSubnet, bridge } = options;
  const { dataplaneGroup } = options;
  return omitUndefined({
    apiPort,
    apiAddress,
    nodeName,
    podSubnet,
    serviceSubnet,
    bridge,
    dataplaneGroup,
  });
}

/** Returns the reason in the last line of the supervisor's log, or the line itself. */
export function lastReason(log: string | undefined): string {
  const last = (log ?? "").trimEnd().split("\n").at(-1) ?? "";
  return readText(parseFields(last), "reason") || last;
}
