// SPDX-License-Identifier: Apache-2.0
// Leader election among several virt-controllers.
import { LEASES } from "@patchbay/api";
import { eventually } from "@patchbay/support";
import { afterEach, beforeEach, expect, test } from "vitest";
import { startController, type Controller } from "./testing/controllers.ts";
import { Scene } from "./testing/cluster-actors.ts";
import { useServer } from "./testing/component-environment.ts";

const stage = useServer();
/** Generous, for busy machines. */
const WITHIN = { withinMs: 20_000 };
const LEADING = "kubevirt_virt_controller_leading_status 1";

let controllers: Controller[];
let scene: Scene;

async function leads(controller: Controller): Promise<boolean> {
  return (await controller.metrics()).includes(LEADING);
}

function writes({ calls }: Controller): readonly string[] {
  return calls.filter((call) => !/^(?:find|list) /.test(call) && !call.endsWith(" leases"));
}

async function start(): Promise<Controller> {
  const controller = await startController(stage.server, { isElected: true });
  controllers.push(controller);
  return controller;
}

beforeEach(() => {
  controllers = [];
  scene = new Scene(stage.admin, "vm1");
});

afterEach(async () => {
  await scene.end();
  await Promise.allSettled(controllers.map((controller) => controller.stop()));
});

test("one process leads; the other waits, reports the leader, and writes nothing", async () => {
  const first = await start();
  await eventually(() => leads(first), WITHIN);
  const second = await start();
  await scene.createVm([]);
  await scene.vmi();
  expect(await leads(second)).toBe(false);
  expect(writes(second)).toEqual([]);
  const lease = await stage.admin.store.find(LEASES, {
    namespace: "patchbay",
    name: "virt-controller",
  });
  const holder = lease?.spec?.holderIdentity ?? "";
  expect([first, second].map((each) => each.notes())).toEqual([
    [`leading as ${holder}`],
    [`${holder} leads`],
  ]);
});

test("another process takes over from a stopped leader and handles pending changes", async () => {
  const first = await start();
  await eventually(() => leads(first), WITHIN);
  const second = await start();
  await first.stop();
  await scene.createVm([]);
  await eventually(() => leads(second), WITHIN);
  await scene.vmi();
});

test("another process takes over from a disconnected leader, which stops writing", async () => {
  const first = await start();
  await eventually(() => leads(first), WITHIN);
  const second = await start();
  first.cutOff();
  await scene.createVm([]);
  await eventually(() => leads(second), WITHIN);
  await scene.vmi();
  await expect(first.ended).rejects.toMatchObject({ code: "KUBE_LEASE_LOST" });
});
