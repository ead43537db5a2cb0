// SPDX-License-Identifier: Apache-2.0
import type { IfaceOperation, VirtualMachineInstance } from "@patchbay/api";
import { expect, test } from "vitest";
import { listOperations } from "./history.ts";

const START = { startTimestamp: "2026-11-26T14:02:11.500Z" };
const END = { endTimestamp: "2026-11-26T14:02:12.340Z" };
const PHASES: IfaceOperation["phases"] = [
  { phase: "PodAttaching", milliseconds: 510 },
  { phase: "Wiring", milliseconds: 330 },
];

function vmi(...operations: readonly IfaceOperation[]): VirtualMachineInstance {
  return {
    apiVersion: "v1",
    kind: "VirtualMachineInstance",
    metadata: { name: "a", namespace: "ns" },
    spec: { domain: {} },
    status: { phase: "Running", interfaceHistory: [{ name: "blue", operations: [...operations] }] },
  };
}

test.each<{ name: string; operation: IfaceOperation; want: object }>([
  {
    name: "a plug with several attempts",
    operation: {
      type: "Plug",
      networkName: "ns/blue",
      ...START,
      ...END,
      phases: PHASES,
      outcome: "Done",
      reason: "CniFailed",
      attempts: 3,
    },
    want: {
      startTime: "2026-11-26 14:02:11",
      what: "plug into ns/blue",
      duration: "0.84 s",
      end: "done, was held up by CniFailed, tried 3 times",
      phases: "joining the network 0.51 s, bridge and tap 0.33 s",
    },
  },
  {
    name: "an unplug in progress",
    operation: { type: "Unplug", ...START, phases: [{ phase: "Detaching" }] },
    want: {
      startTime: "2026-11-26 14:02:11",
      what: "pull from the pod's network",
      end: "in progress",
      phases: "waiting for the guest to detach …",
    },
  },
  {
    name: "a change of the network that was canceled",
    operation: {
      type: "Swap",
      networkName: "ns/red",
      ...START,
      ...END,
      phases: [],
      outcome: "Cancelled",
    },
    want: { what: "move to ns/red", end: "canceled" },
  },
  {
    name: "a link, when the guest has ended",
    operation: {
      type: "LinkState",
      linkState: "down",
      ...START,
      phases: [],
      outcome: "GuestEnded",
    },
    want: { what: "link down", end: "ended with the guest" },
  },
])("$name", ({ operation, want }) => {
  expect(listOperations({ vmi: vmi(operation) }).get("blue")).toMatchObject([want]);
});

test("lists the newest operation first and escapes foreign text", () => {
  const hostile = { type: "Plug", networkName: "ns/\u202Egnp", ...START, phases: [] } as const;
  const rows = listOperations({
    vmi: vmi(
      { ...hostile, phases: [] },
      { type: "Unplug", ...END, startTimestamp: END.endTimestamp, phases: [] },
    ),
  });
  expect(rows.get("blue")?.map(({ what }) => what)).toEqual([
    "pull from the pod's network",
    String.raw`plug into ns/\u202egnp`,
  ]);
});
