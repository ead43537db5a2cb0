// SPDX-License-Identifier: Apache-2.0
// What `patchbay up` does, depending on the supervisor that runs. Pure.
import { dropAbsent } from "@patchbay/core";
import { parseFields, textOf } from "./data-dir/json.ts";
import type { WantedSettings } from "./settings/settings.ts";
import type { SupervisorPhase } from "./supervisor/state.ts";

/**
 * - `report`: the machine is up;
 * - `follow`: wait for the supervisor that is starting;
 * - `replace`: wait for the end of the supervisor, then start another;
 * - `start`: none runs.
 */
export type UpPlan = "report" | "follow" | "replace" | "start";

/** Decides by the phase of the supervisor that runs; undefined: none does. */
export function planUp(phase: SupervisorPhase | undefined): UpPlan {
  if (phase === undefined) return "start";
  if (phase === "ready") return "report";
  return phase === "starting" ? "follow" : "replace";
}

/** The settings among the options of a command, without those that are not set. */
export function wantedOf(options: WantedSettings): WantedSettings {
  const { apiPort, apiAddress, nodeName, podSubnet, serviceSubnet, bridge } = options;
  const { dataplaneGroup } = options;
  return dropAbsent({
    apiPort,
    apiAddress,
    nodeName,
    podSubnet,
    serviceSubnet,
    bridge,
    dataplaneGroup,
  });
}

/** The reason in the last line of a supervisor's log, or that line; empty without a log. */
export function lastReason(log: string | undefined): string {
  const last = (log ?? "").trimEnd().split("\n").at(-1) ?? "";
  return textOf(parseFields(last), "reason") || last;
}
