// SPDX-License-Identifier: Apache-2.0
import type { NetworkSelection } from "@patchbay/api/annotations";
import type {
  AttachmentAction,
  AttachmentFacts,
  OwnedAttachment,
} from "../nics/attachments/attachment-actions.ts";

export type Facts = AttachmentFacts<OwnedAttachment>;

export function facts(elements: readonly NetworkSelection[], more: Partial<Facts> = {}): Facts {
  const networks = { ok: true, elements } as const;
  return {
    namespace: "ns1",
    networks,
    isHostNetwork: false,
    owned: [],
    foreign: [],
    mode: "multus",
    podState: "alive",
    ...more,
  };
}

/** An attachment by net-agent in the pod's current sandbox. */
export function owned(
  network: string,
  interfaceName: string,
  more: Partial<OwnedAttachment> = {},
): OwnedAttachment {
  return { network, interfaceName, state: "attached", isStale: false, isAdopted: false, ...more };
}

/** Short text for test tables. */
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
