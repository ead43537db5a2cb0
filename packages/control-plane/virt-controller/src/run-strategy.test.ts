// SPDX-License-Identifier: Apache-2.0
// Run strategies, start requests and guest ends, against an API server.
import type { StateChangeRequest } from "@patchbay/api";
import { eventually } from "@patchbay/support";
import { expect, test } from "vitest";
import { useStage } from "./testing/component-environment.ts";

const stage = useStage();

/** Writes a request as virt-api does. */
async function request(...requests: readonly StateChangeRequest[]): Promise<void> {
  await stage.scene.vmWhen(({ status }) => status !== undefined);
  await stage.scene.reportVm({ stateChangeRequests: [...requests] });
}

async function stopRequest(): Promise<StateChangeRequest> {
  return { action: "Stop", uid: (await stage.scene.vmi()).metadata.uid ?? "" };
}

/** Waits until the VM has this status and the queue is idle. */
async function settled(printableStatus: string): Promise<void> {
  await stage.scene.vmWhen(
    ({ status }) =>
      status?.printableStatus === printableStatus && status.stateChangeRequests === undefined,
  );
}

test("a manually started VM stays stopped when its VMI is deleted", async () => {
  await stage.scene.createVm([], "Manual");
  await request({ action: "Start" });
  await stage.scene.boot();
  await settled("Running");
  await stage.scene.deleteVmi();
  await stage.scene.removePod();
  await settled("Stopped");
  expect(await stage.scene.findVmi()).toBeUndefined();
});

test("a manually started VM is restarted after the guest ends", async () => {
  await stage.scene.createVm([], "Manual");
  await request({ action: "Start" });
  await stage.scene.boot();
  const first = await stopRequest();
  await stage.scene.reportVmi({ phase: "Succeeded" });
  await settled("Stopped");
  await request(first, { action: "Start" });
  await stage.scene.vmiWhen(({ metadata }) => metadata.deletionTimestamp !== undefined);
  await stage.scene.removePod();
  await stage.scene.vmiWhen(({ metadata }) => metadata.uid !== first.uid);
  await settled("Starting");
  expect((await stage.scene.vm()).status?.created).toBe(true);
});

test("a VM with RerunOnFailure stays stopped when it is stopped", async () => {
  await stage.scene.createVm([], "RerunOnFailure");
  await stage.scene.boot();
  await request(await stopRequest());
  await stage.scene.vmiWhen(({ metadata }) => metadata.deletionTimestamp !== undefined);
  await stage.scene.removePod();
  await settled("Stopped");
  expect((await stage.scene.vm()).status).toMatchObject({
    runStrategy: "RerunOnFailure",
    created: false,
  });
});

test.each(["Always", "RerunOnFailure"] as const)(
  "%s: a guest that fails at once is restarted after a delay, which is reported",
  async (strategy) => {
    await stage.scene.createVm([], strategy);
    await stage.scene.runPod();
    const { metadata } = await stage.scene.vmi();
    await stage.scene.patchPodStatus([{ op: "replace", path: "/status/phase", value: "Failed" }]);
    const { status } = await stage.scene.vmWhen(
      (vm) => vm.status?.printableStatus === "CrashLoopBackOff",
    );
    expect(status?.startFailure).toMatchObject({
      consecutiveFailCount: 1,
      lastFailedVMIUID: metadata.uid,
    });
    await eventually(async () => (await stage.scene.findVmi()) === undefined, { withinMs: 2000 });
  },
);
