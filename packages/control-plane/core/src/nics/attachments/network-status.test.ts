// SPDX-License-Identifier: Apache-2.0
import type { NetworkStatus } from "@patchbay/api/annotations";
import { expect, test } from "vitest";
import {
  listInterfaces,
  mergeNetworkStatus,
  type ReportedAttachment,
} from "./attachment-actions.ts";

const DEFAULT: NetworkStatus = { name: "kindnet", interface: "eth0", default: true, dns: {} };
const FOREIGN: NetworkStatus = { name: "x/y", interface: "net9", dns: {} };
const NAMELESS: NetworkStatus = { name: "x/z" };

function entry(name: string, interfaceName: string): NetworkStatus {
  return { name, interface: interfaceName, dns: {} };
}

function attached(
  network: string,
  nic: string,
  more: Partial<ReportedAttachment> = {},
): ReportedAttachment {
  return {
    interfaceName: nic,
    state: "attached",
    isStale: false,
    isAdopted: false,
    entries: [entry(network, nic)],
    ...more,
  };
}

test.each([
  {
    name: "what is attached comes behind the others, in the order in which it was begun",
    current: [DEFAULT, FOREIGN],
    attachments: [attached("ns1/b", "net2"), attached("ns1/a", "net1")],
    want: [DEFAULT, FOREIGN, entry("ns1/b", "net2"), entry("ns1/a", "net1")],
  },
  {
    name: "what is there stays in its place",
    current: [DEFAULT, entry("ns1/a", "net1"), FOREIGN, NAMELESS],
    attachments: [attached("ns1/a", "net1"), attached("ns1/b", "net2")],
    want: [DEFAULT, entry("ns1/a", "net1"), FOREIGN, NAMELESS, entry("ns1/b", "net2")],
  },
  {
    name: "another network takes the place of the one that had the NIC",
    current: [entry("ns1/a", "net1"), FOREIGN],
    attachments: [attached("ns1/a", "net1", { state: "removed" }), attached("ns1/b", "net1")],
    want: [entry("ns1/b", "net1"), FOREIGN],
  },
  {
    name: "what is removed goes, and so does what is of a sandbox before, or only begun",
    current: [entry("ns1/a", "net1"), entry("ns1/b", "net2"), entry("ns1/c", "net3"), FOREIGN],
    attachments: [
      attached("ns1/a", "net1", { state: "removed" }),
      attached("ns1/b", "net2", { isStale: true }),
      attached("ns1/c", "net3", { state: "begun" }),
    ],
    want: [FOREIGN],
  },
  {
    name: "what the runtime made again in a new sandbox keeps the runtime's entry",
    current: [DEFAULT, { ...entry("ns1/a", "net1"), mac: "02:00:00:00:00:01" }],
    attachments: [
      attached("ns1/a", "net1", { state: "removed", isStale: true }),
      attached("ns1/a", "net1", { isAdopted: true }),
    ],
    want: [DEFAULT, { ...entry("ns1/a", "net1"), mac: "02:00:00:00:00:01" }],
  },
  {
    name: "what the runtime made and did not write down gets the entry that its result has",
    current: [DEFAULT],
    attachments: [attached("ns1/a", "net1", { isAdopted: true })],
    want: [DEFAULT, entry("ns1/a", "net1")],
  },
  {
    name: "every NIC of an attachment goes with it",
    current: [entry("ns1/a", "net1"), entry("ns1/a", "aux"), FOREIGN],
    attachments: [
      attached("ns1/a", "net1", {
        state: "removed",
        entries: [entry("ns1/a", "net1"), entry("ns1/a", "aux")],
      }),
    ],
    want: [FOREIGN],
  },
  {
    name: "what the runtime made is told by the runtime",
    current: [{ ...entry("ns1/a", "net1"), mac: "02:00:00:00:00:01" }],
    attachments: [attached("ns1/a", "net1", { isAdopted: true })],
    want: [{ ...entry("ns1/a", "net1"), mac: "02:00:00:00:00:01" }],
  },
  {
    name: "what the runtime made goes once it is removed",
    current: [entry("ns1/a", "net1"), FOREIGN],
    attachments: [attached("ns1/a", "net1", { isAdopted: true, state: "removed" })],
    want: [FOREIGN],
  },
])("$name", ({ current, attachments, want }) => {
  expect(mergeNetworkStatus(current, attachments)).toEqual(want);
});

test.each([
  { name: "what was asked for", entries: [], want: ["net1"] },
  { name: "each once", entries: [entry("a", "net1"), entry("a", "aux")], want: ["net1", "aux"] },
  { name: "none where an entry names none", entries: [NAMELESS], want: ["net1"] },
])("an attachment has the NICs: $name", ({ entries, want }) => {
  expect(listInterfaces({ interfaceName: "net1", entries })).toEqual(want);
});
