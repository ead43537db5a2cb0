// SPDX-License-Identifier: Apache-2.0
// When a VM runs: strategies, requests and guests that end, against an API server.
import type { StateChangeRequest } from "@patchbay/api";
import type { KubeClient } from "@patchbay/kube";
import { eventually } from "@patchbay/testing";
import { startTestServer, type TestServer } from "@patchbay/testing/api-server";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { startController, type Controller } from "./testing/controllers.ts";
import { Scene } from "./testing/scene.ts";

let server: TestServer;
let admin: KubeClient;
let controller: Controller;
let scene: Scene;

beforeAll(async () => {
  server = await startTestServer();
  admin = await server.client("kubernetes-admin", ["system:masters"]);
});

afterAll(async () => {
  await server.close();
});

beforeEach(async () => {
  controller = await startController(server);
  scene = new Scene(admin, "vm1");
});

afterEach(async () => {
  await scene.end();
  await controller.stop();
});

/** What virt-api writes for a user. */
async function request(...requests: readonly StateChangeRequest[]): Promise<void> {
  await scene.vmWhen(({ status }) => status !== undefined);
  await scene.reportVm({ stateChangeRequests: [...requests] });
}

async function stopRequest(): Promise<StateChangeRequest> {
  return { action: "Stop", uid: (await scene.vmi()).metadata.uid ?? "" };
}

/** Until the VM says so, with nothing left to do. */
async function settled(printableStatus: string): Promise<void> {
  await scene.vmWhen(
    ({ status }) =>
      status?.printableStatus === printableStatus && status.stateChangeRequests === undefined,
  );
}

test("a VM that is started by hand stays ended when its VMI is deleted", async () => {
  await scene.createVm([], "Manual");
  await request({ action: "Start" });
  await scene.boot();
  await settled("Running");
  await scene.deleteVmi();
  await scene.removePod();
  await settled("Stopped");
  expect(await scene.findVmi()).toBeUndefined();
});

test("a VM that is started by hand is started again after the guest's own end", async () => {
  await scene.createVm([], "Manual");
  await request({ action: "Start" });
  await scene.boot();
  const first = await stopRequest();
  await scene.reportVmi({ phase: "Succeeded" });
  await settled("Stopped");
  await request(first, { action: "Start" });
  await scene.vmiWhen(({ metadata }) => metadata.deletionTimestamp !== undefined);
  await scene.removePod();
  await scene.vmiWhen(({ metadata }) => metadata.uid !== first.uid);
  await settled("Starting");
  expect((await scene.vm()).status?.created).toBe(true);
});

test("a VM that is rerun on failure stays stopped when it is stopped", async () => {
  await scene.createVm([], "RerunOnFailure");
  await scene.boot();
  await request(await stopRequest());
  await scene.vmiWhen(({ metadata }) => metadata.deletionTimestamp !== undefined);
  await scene.removePod();
  await settled("Stopped");
  expect((await scene.vm()).status).toMatchObject({
    runStrategy: "RerunOnFailure",
    created: false,
  });
});

test.each(["Always", "RerunOnFailure"] as const)(
  "%s: a guest that fails at once is left alone for a while, and says so",
  async (strategy) => {
    await scene.createVm([], strategy);
    await scene.runPod();
    const { metadata } = await scene.vmi();
    await scene.patchPodStatus([{ op: "replace", path: "/status/phase", value: "Failed" }]);
    const { status } = await scene.vmWhen(
      (vm) => vm.status?.printableStatus === "CrashLoopBackOff",
    );
    expect(status?.startFailure).toMatchObject({
      consecutiveFailCount: 1,
      lastFailedVMIUID: metadata.uid,
    });
    await eventually(async () => (await scene.findVmi()) === undefined, { withinMs: 2000 });
  },
);
