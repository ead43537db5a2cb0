// SPDX-License-Identifier: Apache-2.0
// Several virt-controllers of one cluster: one does the work, another is there when it is gone.
import { LEASES } from "@patchbay/api";
import { eventually } from "@patchbay/support";
import { afterEach, beforeEach, expect, test } from "vitest";
import { startController, type Controller } from "./testing/controllers.ts";
import { Scene } from "./testing/scene.ts";
import { useServer } from "./testing/stage.ts";

const stage = useServer();
/** A busy machine is no failure. */
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

test("one works, the other stands by, says who leads, and writes nothing", async () => {
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

test("one that stops is followed, and what was asked for in between is done", async () => {
  const first = await start();
  await eventually(() => leads(first), WITHIN);
  const second = await start();
  await first.stop();
  await scene.createVm([]);
  await eventually(() => leads(second), WITHIN);
  await scene.vmi();
});

test("one that is cut off is followed, and writes nothing any more", async () => {
  const first = await start();
  await eventually(() => leads(first), WITHIN);
  const second = await start();
  first.cutOff();
  await scene.createVm([]);
  await eventually(() => leads(second), WITHIN);
  await scene.vmi();
  await expect(first.ended).rejects.toMatchObject({ code: "KUBE_LEASE_LOST" });
});
