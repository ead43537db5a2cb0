// SPDX-License-Identifier: Apache-2.0
// What a pod's attachments are decided from, in few words.
import type { NetworkSelection } from "@patchbay/api";
import type {
  AttachmentAction,
  AttachmentFacts,
  OwnedAttachment,
} from "../plan/attachments/attachment-actions.ts";

export type Facts = AttachmentFacts<OwnedAttachment>;

/** Of a pod that lives; its elements, and what differs from one that has nothing. */
export function facts(elements: readonly NetworkSelection[], more: Partial<Facts> = {}): Facts {
  const networks = { ok: true, elements } as const;
  return {
    namespace: "ns1",
    networks,
    isHostNetwork: false,
    owned: [],
    foreign: [],
    mode: "multus",
    pod: "alive",
    ...more,
  };
}

/** Attached by net-agent, in the pod's sandbox. */
export function owned(
  network: string,
  interfaceName: string,
  more: Partial<OwnedAttachment> = {},
): OwnedAttachment {
  return { network, interfaceName, state: "attached", isStale: false, isAdopted: false, ...more };
}

/** An action as tables write it. */
export function printAction(action: AttachmentAction<OwnedAttachment>): string {
  switch (action.kind) {
    case "add":
      return `add ${action.wanted.network}@${action.wanted.interfaceName}`;
    case "del":
      return `del ${action.owned.network}@${action.owned.interfaceName}`;
    case "adopt":
      return `adopt ${action.foreign.network}@${action.foreign.interfaceName}`;
    case "forget":
      return `forget ${action.owned.network}@${action.owned.interfaceName}`;
    case "reportError":
      return `error ${action.reason}@${action.interfaceName}`;
  }
}
