// SPDX-License-Identifier: Apache-2.0
import { VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES } from "@patchbay/api";
import type { StatusBody } from "@patchbay/api/kubernetes";
import { createFakeStore, type FakeStore } from "@patchbay/kube/testing";
import { beforeEach, expect, test } from "vitest";
import { aCall } from "../testing/call.ts";
import { depsOn } from "../testing/deps.ts";
import { aVm, aVmi, KEY } from "../testing/objects.ts";
import { evacuateCancel } from "./change-vm.ts";

const DONE = "the evacuation of VMI ns/vm from node a was canceled";
const NOTHING = "VMI ns/vm is not being evacuated";

let store: FakeStore;

beforeEach(() => {
  store = createFakeStore();
});

function putVmi(mark: { readonly evacuationNodeName?: string }): void {
  const vmi = aVmi();
  store.put(VIRTUAL_MACHINE_INSTANCES, {
    ...vmi,
    status: { ...vmi.status, nodeName: "a", ...mark },
  });
}

async function markNow(): Promise<string | undefined> {
  return (await store.find(VIRTUAL_MACHINE_INSTANCES, KEY))?.status?.evacuationNodeName;
}

test.each<{
  kind: "vm" | "vmi";
  mark: { readonly evacuationNodeName?: string };
  dryRun: boolean;
  want: string;
  left: string | undefined;
}>([
  { kind: "vm", mark: { evacuationNodeName: "a" }, dryRun: false, want: DONE, left: undefined },
  { kind: "vmi", mark: { evacuationNodeName: "a" }, dryRun: false, want: DONE, left: undefined },
  { kind: "vmi", mark: { evacuationNodeName: "a" }, dryRun: true, want: DONE, left: "a" },
  { kind: "vm", mark: {}, dryRun: false, want: NOTHING, left: undefined },
])(
  "cancels for a $kind with $mark, dry run $dryRun: $want",
  async ({ kind, mark, dryRun, want, left }) => {
    store.put(VIRTUAL_MACHINES, aVm());
    putVmi(mark);
    const { code, body } = await evacuateCancel(depsOn(store), kind)(aCall({ dryRun, body: {} }));
    expect({ code, message: (body as StatusBody).message }).toEqual({ code: 200, message: want });
    expect(await markNow()).toBe(left);
  },
);

test.each([
  { name: "a missing VM", kind: "vm", hasVm: false },
  { name: "a VM without a guest", kind: "vm", hasVm: true },
  { name: "a missing VMI", kind: "vmi", hasVm: true },
] as const)("responds with 404 for $name", async ({ kind, hasVm }) => {
  if (hasVm) store.put(VIRTUAL_MACHINES, aVm());
  expect((await evacuateCancel(depsOn(store), kind)(aCall({}))).code).toBe(404);
});

test("rejects a body that is not an object", async () => {
  putVmi({ evacuationNodeName: "a" });
  expect((await evacuateCancel(depsOn(store), "vmi")(aCall({ body: [] }))).code).toBe(400);
  expect(await markNow()).toBe("a");
});
