// SPDX-License-Identifier: Apache-2.0
import type { AttachmentAction } from "@patchbay/core/nics";
import { parseKey, type Step } from "@patchbay/kube";
import type { Deps } from "../../deps.ts";
import { buildDeviceInputs } from "./attachment/device.ts";
import type { OwnedRow } from "./attachment/owned-row.ts";
import type { PodFacts } from "./observe.ts";

export type Action = AttachmentAction<OwnedRow>;

/** Returns the name of the pod NIC, or an empty string for an error of the whole annotation. */
export function interfaceNameOf(action: Action): string {
  switch (action.kind) {
    case "add":
      return action.wanted.interfaceName;
    case "del":
    case "forget":
      return action.owned.interfaceName;
    case "adopt":
      return action.foreign.interfaceName;
    case "reportError":
      return action.interfaceName;
  }
}

/** Returns the network as NAMESPACE/NAME; undefined for an error report. */
export function networkOf(action: Action): string | undefined {
  switch (action.kind) {
    case "add":
      return action.wanted.network;
    case "del":
    case "forget":
      return action.owned.network;
    case "adopt":
      return action.foreign.network;
    case "reportError":
      return undefined;
  }
}

function listInputs(action: Action, facts: PodFacts, deps: Deps): unknown {
  switch (action.kind) {
    case "add": {
      const { network, selection } = action.wanted;
      const config = deps.nads.find(parseKey(network))?.spec?.config;
      const device = buildDeviceInputs(action.wanted, facts, deps);
      return [network, selection, config, facts.sandbox, deps.policy.current(), device];
    }
    case "del":
    case "forget":
      return [action.owned.row.sequence, facts.sandbox, facts.attachments.podState];
    case "adopt":
      return [action.foreign, facts.sandbox];
    case "reportError":
      return [];
  }
}

/** Builds the step of an action. If the action reports an error, the name includes its message, so that each error has its own step. */
export function toStep(action: Action, facts: PodFacts, deps: Deps): Step {
  const suffix = action.kind === "reportError" ? `: ${action.message}` : "";
  return {
    scope: facts.uid,
    name: `${action.kind} ${interfaceNameOf(action)}${suffix}`,
    inputs: JSON.stringify(listInputs(action, facts, deps)),
  };
}
