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
    name: "new attachments are appended in the order of their start",
    current: [DEFAULT, FOREIGN],
    attachments: [attached("ns1/b", "net2"), attached("ns1/a", "net1")],
    want: [DEFAULT, FOREIGN, entry("ns1/b", "net2"), entry("ns1/a", "net1")],
  },
  {
    name: "existing entries retain their position",
    current: [DEFAULT, entry("ns1/a", "net1"), FOREIGN, NAMELESS],
    attachments: [attached("ns1/a", "net1"), attached("ns1/b", "net2")],
    want: [DEFAULT, entry("ns1/a", "net1"), FOREIGN, NAMELESS, entry("ns1/b", "net2")],
  },
  {
    name: "another network replaces the previous network of the NIC",
    current: [entry("ns1/a", "net1"), FOREIGN],
    attachments: [attached("ns1/a", "net1", { state: "removed" }), attached("ns1/b", "net1")],
    want: [entry("ns1/b", "net1"), FOREIGN],
  },
  {
    name: "entries of removed, stale and unfinished attachments are deleted",
    current: [entry("ns1/a", "net1"), entry("ns1/b", "net2"), entry("ns1/c", "net3"), FOREIGN],
    attachments: [
      attached("ns1/a", "net1", { state: "removed" }),
      attached("ns1/b", "net2", { isStale: true }),
      attached("ns1/c", "net3", { state: "begun" }),
    ],
    want: [FOREIGN],
  },
  {
    name: "an attachment that the runtime added again in a new sandbox retains the runtime's entry",
    current: [DEFAULT, { ...entry("ns1/a", "net1"), mac: "02:00:00:00:00:01" }],
    attachments: [
      attached("ns1/a", "net1", { state: "removed", isStale: true }),
      attached("ns1/a", "net1", { isAdopted: true }),
    ],
    want: [DEFAULT, { ...entry("ns1/a", "net1"), mac: "02:00:00:00:00:01" }],
  },
  {
    name: "the runtime's entry in a new sandbox is retained before its adoption",
    current: [DEFAULT, entry("ns1/a", "net1"), entry("ns1/b", "net2"), entry("ns1/c", "net3")],
    attachments: [
      attached("ns1/a", "net1", { state: "removed", isStale: true }),
      attached("ns1/b", "net2", { isStale: true }),
      attached("ns1/c", "net3", { state: "removed" }),
    ],
    renewed: new Set(["net1", "net3"]),
    want: [DEFAULT, entry("ns1/a", "net1")],
  },
  {
    name: "an adopted attachment without an entry gets the entry of its result",
    current: [DEFAULT],
    attachments: [attached("ns1/a", "net1", { isAdopted: true })],
    want: [DEFAULT, entry("ns1/a", "net1")],
  },
  {
    name: "all entries of an attachment are deleted with it",
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
    name: "an adopted attachment retains the runtime's entry",
    current: [{ ...entry("ns1/a", "net1"), mac: "02:00:00:00:00:01" }],
    attachments: [attached("ns1/a", "net1", { isAdopted: true })],
    want: [{ ...entry("ns1/a", "net1"), mac: "02:00:00:00:00:01" }],
  },
  {
    name: "a deleted adopted attachment loses its entry",
    current: [entry("ns1/a", "net1"), FOREIGN],
    attachments: [attached("ns1/a", "net1", { isAdopted: true, state: "removed" })],
    want: [FOREIGN],
  },
])("$name", ({ current, attachments, renewed, want }) => {
  expect(mergeNetworkStatus(current, attachments, renewed)).toEqual(want);
});

test.each([
  { name: "the requested name without entries", entries: [], want: ["net1"] },
  {
    name: "each name once",
    entries: [entry("a", "net1"), entry("a", "aux")],
    want: ["net1", "aux"],
  },
  { name: "the requested name if an entry has no name", entries: [NAMELESS], want: ["net1"] },
])("an attachment has the NICs: $name", ({ entries, want }) => {
  expect(listInterfaces({ interfaceName: "net1", entries })).toEqual(want);
});
