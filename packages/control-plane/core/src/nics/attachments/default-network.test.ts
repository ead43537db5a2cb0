// SPDX-License-Identifier: Apache-2.0
// The pod's default network is never taken for one of ours, whatever its name and that of its NIC.
import type { NetworkSelection } from "@patchbay/api/annotations";
import { expect, test } from "vitest";
import {
  planAttachmentActions,
  type ForeignAttachment,
  type OwnedAttachment,
} from "./attachment-actions.ts";

function plan(
  elements: readonly NetworkSelection[],
  foreign: readonly ForeignAttachment[],
): readonly string[] {
  const actions = planAttachmentActions<OwnedAttachment>({
    namespace: "ns1",
    networks: { ok: true, elements },
    isHostNetwork: false,
    owned: [],
    foreign,
    mode: "multus",
    podState: "alive",
  });
  return actions.map((action) => {
    if (action.kind === "add") return `add ${action.wanted.interfaceName}`;
    return action.kind === "reportError" ? `error ${action.reason}` : action.kind;
  });
}

const SIDE: ForeignAttachment = { network: "kube-system/side", interfaceName: "net1" };

test.each<{
  name: string;
  elements: readonly NetworkSelection[];
  foreign: readonly ForeignAttachment[];
  want: readonly string[];
}>([
  {
    name: "an element that names it and its NIC is rejected",
    elements: [{ name: "a", interface: "eth0" }],
    foreign: [{ network: "ns1/a", interfaceName: "eth0", isDefault: true }],
    want: ["error InterfaceNameTaken"],
  },
  {
    name: "an element without an interface does not match it",
    elements: [{ name: "a" }],
    foreign: [{ network: "ns1/a", interfaceName: "eth0", isDefault: true }, SIDE],
    want: ["add net2"],
  },
  {
    name: "a NIC with a name in Patchbay's scheme is ignored",
    elements: [],
    foreign: [{ network: "ns1/a", interfaceName: "pod0123456789a", isDefault: true }],
    want: [],
  },
])("$name", ({ elements, foreign, want }) => {
  expect(plan(elements, foreign)).toEqual(want);
});
