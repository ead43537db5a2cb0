// SPDX-License-Identifier: Apache-2.0
import { omitUndefined } from "@patchbay/base";
import { parseFields, readText } from "./data-dir/json.ts";
import type { WantedSettings } from "./settings/settings.ts";
import type { SupervisorPhase } from "./supervisor/state.ts";

/** `follow` waits until a starting supervisor is ready; `replace` waits until a stopping supervisor has ended. */
export type UpPlan = "report" | "follow" | "replace" | "start";

export function planUp(phase: SupervisorPhase | undefined): UpPlan {
  if (phase === undefined) return "start";
  if (phase === "ready") return "report";
  return phase === "starting" ? "follow" : "replace";
}

export function pickMachineSettings(options: WantedSettings): WantedSettings {
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

/**
 * Returns the reason in the last line of the supervisor's log, or the whole line if it contains no reason. If the log is empty,
 * returns a message that refers to `outFile`, which contains the supervisor's output.
 */
export function parseLastReason(log: string | undefined, outFile: string): string {
  const lastLine = (log ?? "").trimEnd().split("\n").at(-1) ?? "";
  if (lastLine === "") return `the supervisor ended before its first log line; see ${outFile}`;
  return readText(parseFields(lastLine), "reason") || lastLine;
}
