// SPDX-License-Identifier: Apache-2.0
import { createHash } from "node:crypto";
import type { Attachment, VmiStatus } from "@patchbay/api";
import { aVmi } from "@patchbay/testing";
import { expect, test } from "vitest";
import { attachmentStatuses } from "./attachments.ts";

const sha256Hex = (text: string): string => createHash("sha256").update(text).digest("hex");
const POD_NIC = `pod${sha256Hex("one").slice(0, 11)}`;
const FAILED: Attachment = {
  name: "one",
  networkName: "default/blue",
  podInterfaceName: POD_NIC,
  state: "Failed",
  reason: "CniFailed",
  message: "no address left",
};

test.each([
  {
    name: "the pod has it",
    state: "up",
    statuses: [{ name: "default/blue", interface: POD_NIC }],
    want: "Attached",
  },
  { name: "it is asked for again", state: "up", statuses: [], want: "Requested" },
  {
    name: "it is let go",
    state: "absent",
    statuses: [{ name: "default/blue", interface: POD_NIC }],
    want: "Removing",
  },
])("an old error is gone when $name", ({ state, statuses, want }) => {
  const hotplug = { type: "Unplug", phase: "PodDetaching" } as const;
  const status: VmiStatus = { attachments: [FAILED], interfaces: [{ name: "one", hotplug }] };
  const pod = { elements: [], networkStatus: statuses, errors: {}, podIps: [] };
  const [attachment] = attachmentStatuses(
    aVmi({ nics: [{ name: "one", state }], status }),
    pod,
    sha256Hex,
  );
  expect(attachment).toEqual({
    name: "one",
    networkName: "default/blue",
    podInterfaceName: POD_NIC,
    state: want,
  });
});
