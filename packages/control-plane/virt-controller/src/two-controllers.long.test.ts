// SPDX-License-Identifier: Apache-2.0
// Two concurrent virt-controllers, one with a stale cache: running guests are never ended.
import { PODS } from "@patchbay/api";
import { afterEach, beforeEach, expect, test } from "vitest";
import { startController, type Controller } from "./testing/controllers.ts";
import { launcherNameOf, Scene } from "./testing/cluster-actors.ts";
import { useServer } from "./testing/component-environment.ts";

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

/** Stops the stale controller's events; resolves when it has handled earlier ones. */
async function leaveAlone(): Promise<void> {
  await current.stop();
  await sentinel.createVm([]);
  await sentinel.vmWhen(({ status }) => status?.printableStatus !== undefined);
}

test("a pod that a cache lacks does not count as deleted", async () => {
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

test("a deleted VMI retains its finalizer while its pod exists", async () => {
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

test("a VMI that a cache lacks is neither created again nor reported as deleted", async () => {
  behind.freeze("virtualmachineinstances");
  await scene.createVm([]);
  await scene.boot();
  await scene.patchVm([{ op: "add", path: "/metadata/labels", value: { touched: "yes" } }]);
  await leaveAlone();
  const { status } = await scene.vm();
  expect(status).toMatchObject({ created: true, ready: true, printableStatus: "Running" });
});

test("a controller without the latest status does not overwrite another one's report", async () => {
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
