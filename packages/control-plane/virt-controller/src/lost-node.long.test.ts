// SPDX-License-Identifier: Apache-2.0
// A lost node: status of its VMs, and their restart on another node, against an API server.
import { NODES, type RunStrategy } from "@patchbay/api";
import type { KubeNode } from "@patchbay/api/kubernetes";
import { eventually } from "@patchbay/support";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { useStage } from "./testing/component-environment.ts";

/** Node of the scene's pods. */
const NODE = { name: "node1" };
const SOON = { withinMs: 5000 };
type Ready = "True" | "Unknown";

const stage = useStage();

async function tellNode(status: Ready): Promise<void> {
  const fields = { status: { conditions: [{ type: "Ready", status, reason: "x", message: "x" }] } };
  const patch = { type: "merge", fields } as const;
  await stage.admin.store.patch(NODES, NODE, patch, { subresource: "status" });
}

beforeEach(async () => {
  const node: KubeNode = { apiVersion: "v1", kind: NODES.kind, metadata: NODE };
  await stage.admin.store.create(NODES, node);
  await tellNode("True");
});
afterEach(async () => {
  await stage.admin.store.delete(NODES, NODE);
});

async function boot(strategy: RunStrategy = "Always"): Promise<void> {
  await stage.scene.createVm([{ name: "one" }], strategy);
  await stage.scene.boot();
}

test("its VM is Unknown with a reason, and runs again when the node is back", async () => {
  await boot();
  await tellNode("Unknown");
  const vm = await stage.scene.vmWhen(({ status }) => status?.printableStatus === "Unknown");
  expect(vm.status?.ready).toBe(false);
  const told = vm.status?.conditions?.filter(({ reason }) => reason === "NodeUnresponsive");
  expect(told?.map(({ type, message }) => `${type}: ${message ?? ""}`)).toEqual([
    expect.stringMatching(/^Ready: node node1 does not respond/),
    expect.stringMatching(/^Synchronized: node node1 does not respond/),
  ]);
  expect((await stage.scene.vmi()).status?.phase).toBe("Unknown");
  await tellNode("True");
  const back = await stage.scene.vmWhen(({ status }) => status?.printableStatus === "Running");
  expect(back.status?.ready).toBe(true);
});

test("a NIC that is plugged meanwhile reports the lost node and is requested", async () => {
  await boot();
  await stage.scene.attachAll();
  await tellNode("Unknown");
  await stage.scene.vmiWhen(({ status }) => status?.phase === "Unknown");
  const base = "/spec/template/spec";
  await stage.scene.patchVm([
    {
      op: "add",
      path: `${base}/networks/-`,
      value: { name: "two", multus: { networkName: "two" } },
    },
    { op: "add", path: `${base}/domain/devices/interfaces/-`, value: { name: "two", bridge: {} } },
  ]);
  const vmi = await stage.scene.vmiWhen(({ status }) => status?.attachments?.length === 2);
  expect(vmi.status?.attachments).toMatchObject([
    { name: "one", state: "Attached" },
    { name: "two", state: "Failed", reason: "NodeUnresponsive" },
  ]);
  expect(await stage.scene.elements()).toHaveLength(2);
  await tellNode("True");
  await stage.scene.vmiWhen(({ status }) => status?.attachments?.[1]?.state === "Requested");
});

describe("after its pod is deleted", () => {
  test.each<{ strategy: RunStrategy; isBack: boolean }>([
    { strategy: "Always", isBack: true },
    { strategy: "RerunOnFailure", isBack: true },
    { strategy: "Once", isBack: false },
  ])("the VM follows its strategy $strategy", async ({ strategy, isBack }) => {
    await boot(strategy);
    const first = await stage.scene.vmi();
    await tellNode("Unknown");
    await stage.scene.vmiWhen(({ status }) => status?.phase === "Unknown");
    // While it may still run, no other guest is created.
    expect((await stage.scene.vmi()).metadata.uid).toBe(first.metadata.uid);
    await stage.scene.removePod();
    if (isBack) {
      // The next guest starts after a delay, as after each failure.
      await eventually(async () => {
        const vmi = await stage.scene.findVmi();
        return vmi?.metadata.uid !== first.metadata.uid || undefined;
      }, SOON);
      return;
    }
    const failed = await stage.scene.vmiWhen(({ status }) => status?.phase === "Failed");
    expect(failed.status?.reason).toBe("NodeUnresponsive");
    expect(failed.metadata.uid).toBe(first.metadata.uid);
  });
});
