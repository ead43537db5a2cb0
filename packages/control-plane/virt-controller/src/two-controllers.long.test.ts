// SPDX-License-Identifier: Apache-2.0
// Two virt-controllers at once, one of which does not see everything: nothing ends that has not ended.
import { PODS } from "@patchbay/api";
import { afterEach, beforeEach, expect, test } from "vitest";
import { startController, type Controller } from "./testing/controllers.ts";
import { launcherNameOf, Scene } from "./testing/scene.ts";
import { useServer } from "./testing/stage.ts";

const stage = useServer();
let current: Controller;
let behind: Controller;
let scene: Scene;
let sentinel: Scene;

beforeEach(async () => {
  current = await startController(stage.server);
  behind = await startController(stage.server);
  scene = new Scene(stage.admin, "vm1");
  sentinel = new Scene(stage.admin, "sentinel");
});

afterEach(async () => {
  behind.thaw();
  await Promise.all([scene.end(), sentinel.end()]);
  await Promise.all([current.stop(), behind.stop()]);
});

/** Leaves the one that is behind alone; resolves when it has looked at what happened before. */
async function leaveAlone(): Promise<void> {
  await current.stop();
  await sentinel.createVm([]);
  await sentinel.vmWhen(({ status }) => status?.printableStatus !== undefined);
}

test("a pod that one cache does not have is no pod that is gone", async () => {
  behind.freeze("pods");
  await scene.createVm([]);
  const { uid } = (await scene.vmi()).metadata;
  await scene.boot();
  await scene.reportVmi({ pciePorts: { total: 4, free: 4 } });
  await leaveAlone();
  const vmi = await scene.vmi();
  expect(vmi.metadata.uid).toBe(uid);
  expect(vmi.status?.phase).toBe("Running");
});

test("a VMI that is deleted keeps its finalizer while its pod is there", async () => {
  behind.freeze("pods");
  await scene.createVm([]);
  await scene.boot();
  const vmi = await scene.vmi();
  await scene.deleteVmi();
  await scene.vmiWhen(({ metadata }) => metadata.deletionTimestamp !== undefined);
  await leaveAlone();
  const pod = { namespace: "default", name: launcherNameOf(vmi) };
  expect(await stage.admin.store.find(PODS, pod)).toBeDefined();
  expect((await scene.vmi()).metadata.uid).toBe(vmi.metadata.uid);
});

test("a VMI that one cache does not have is neither made again nor said to be gone", async () => {
  behind.freeze("virtualmachineinstances");
  await scene.createVm([]);
  await scene.boot();
  await scene.patchVm([{ op: "add", path: "/metadata/labels", value: { touched: "yes" } }]);
  await leaveAlone();
  const { status } = await scene.vm();
  expect(status).toMatchObject({ created: true, ready: true, printableStatus: "Running" });
});

test("what one has reported is not replaced by one that saw no status yet", async () => {
  behind.freeze("virtualmachineinstances");
  await scene.createVm([{ name: "one", mac: "02:00:00:00:00:01" }]);
  await scene.runPod();
  await scene.vmiWhen(({ status }) => status?.phase === "Scheduled");
  await scene.reportVmi({ pciePorts: { total: 4, free: 4 } });
  behind.deliverOne();
  await leaveAlone();
  const { status } = await scene.vmi();
  expect(status?.pciePorts).toEqual({ total: 4, free: 4 });
  expect(status?.phase).toBe("Scheduled");
});
