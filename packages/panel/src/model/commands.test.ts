// SPDX-License-Identifier: Apache-2.0
import type { VirtualMachine } from "@patchbay/api";
import { expect, test } from "vitest";
import type { Change } from "./changes.ts";
import { listNicChanges, combinedRequest, combinedVerdict } from "./commands.ts";
import type { Answer, Verdict } from "./verdict.ts";

const unit = { key: "ns/a", namespace: "ns", name: "a", kind: "virtualmachines" } as const;
const plug = { kind: "plug", unit, iface: "red", network: "ns/red" } as const;
const pull = { kind: "pull", unit, iface: "blue" } as const;
const other = { ...pull, unit: { ...unit, key: "ns/b", name: "b" } } as const;
const CHANGES: readonly Change[] = [plug, { kind: "power", unit, action: "stop" }, other, pull];
const interfaces = [{ name: "default" }, { name: "blue", bridge: {} }];
const networks = [
  { name: "default", pod: {} },
  { name: "blue", multus: { networkName: "blue" } },
];
const vm: VirtualMachine = {
  apiVersion: "v1",
  kind: "VirtualMachine",
  metadata: { namespace: "ns", name: "a" },
  spec: { template: { spec: { domain: { devices: { interfaces } }, networks } } },
};

test("combines the NIC changes of a VM into one patch that tests the old lists", () => {
  const own = listNicChanges(CHANGES, "ns/a");
  expect(own).toEqual([plug, pull]);
  const base = "/spec/template/spec";
  expect(combinedRequest(own, { vm })).toMatchObject({
    method: "PATCH",
    path: "/apis/kubevirt.io/v1/namespaces/ns/virtualmachines/a",
    body: [
      { op: "test", path: `${base}/domain/devices/interfaces`, value: interfaces },
      { op: "test", path: `${base}/networks`, value: networks },
      { op: "replace", value: [{ name: "default" }, { name: "red" }] },
      { op: "replace", value: [{ name: "default" }, { multus: { networkName: "ns/red" } }] },
    ],
  });
});

test("combines nothing for one change or an unknown VM", () => {
  expect(combinedRequest([plug], { vm })).toBeUndefined();
  expect(combinedRequest([plug, pull], {})).toBeUndefined();
});

const accepted = { status: 200, text: '{"kind":"VirtualMachine"}', warnings: [] };
const full = "no free PCIe port";
const refused = { ...accepted, status: 422, text: `{"kind":"Status","message":"${full}"}` };
const TOGETHER = "together with the other changes: ";
const LATER = "no free port; it is plugged at the next start";
const live = (text: string): Verdict => ({ kind: "live", text });
test.each<{
  name: string;
  answer: Answer;
  alone: readonly Verdict[];
  want: Verdict | undefined;
}>([
  { name: "accepted", answer: accepted, alone: [], want: undefined },
  {
    name: "rejects the combined changes",
    answer: refused,
    alone: [live("fine")],
    want: { kind: "refused", text: `${TOGETHER}${full}` },
  },
  {
    name: "ignores a rejection that a single change has too",
    answer: refused,
    alone: [{ kind: "refused", text: full }],
    want: undefined,
  },
  {
    name: "warns of the combined changes, which apply at once",
    answer: { ...accepted, warnings: [full] },
    alone: [live("fine"), live("")],
    want: live(`${TOGETHER}${full}`),
  },
  {
    name: "warns of the combined changes of a stopped VM",
    answer: { ...accepted, warnings: [full] },
    alone: [live(""), { kind: "start", text: "fine" }],
    want: { kind: "start", text: `fine; ${TOGETHER}${full}` },
  },
  {
    name: "warns that the combined changes apply later",
    answer: { ...accepted, warnings: [full, LATER] },
    alone: [live(full), live("")],
    want: { kind: "start", text: `${TOGETHER}${LATER}` },
  },
  {
    name: "warns of the combined changes without verdicts of their own",
    answer: { ...accepted, warnings: [full] },
    alone: [],
    want: live(`${TOGETHER}${full}`),
  },
])("combinedVerdict: $name", ({ answer, alone, want }) => {
  expect(combinedVerdict(answer, alone)).toEqual(want);
});
